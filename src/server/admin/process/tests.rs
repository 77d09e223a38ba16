use super::*;

#[test]
fn the_fields_are_found_whatever_the_program_is_called() {
    let rest = "R 1 2 3 0 -1 4194304 10 11 12 13 140 15 16 17 20 0 9 0 9876543 12345678 4321 184467440737 1 1 0";
    for name in ["grandstand", "a) R (b", ""] {
        let stat = format!("77 ({name}) {rest}\n");
        let fields = [14, 15, 20, 22, 23, 24].map(|number| field(&stat, number));
        assert_eq!(fields, [140, 15, 9, 9_876_543, 12_345_678, 4321].map(Some));
    }
    assert_eq!(field("77 (x) R 1 2", 14), None);
    assert_eq!(boot_second("cpu 1 2\nbtime 1763800000\nprocesses 5\n"), Some(1_763_800_000));
    assert_eq!(boot_second("cpu 1 2\n"), None);
}
