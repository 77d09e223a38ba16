//! Cells and columns.

use super::*;
use crate::api::hash::ContentHash;
use proptest::prelude::*;
use serde_json::Value;

fn summary(raw: &str) -> Summary {
    Summary { id: ListingId(1), hash: ContentHash::default(), raw: Bytes::copy_from_slice(raw.as_bytes()) }
}

fn table(rows: &[&str]) -> String {
    let mut columns = Columns::default();
    for row in rows {
        assert!(columns.learn(&summary(row)).is_ok());
    }
    let mut out = Vec::new();
    columns.header(&mut out);
    for row in rows {
        assert!(columns.row(0, &summary(row), None, &mut out).is_ok());
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn columns_stand_in_the_order_of_their_first_appearance() {
    let rows = [r#"{"id":1,"b":2}"#, r#"{"a":null,"id":2}"#, r#"{"id":3,"c":{"x": [1,"y"]},"b":""}"#];
    assert_eq!(table(&rows), "id,b,a,c\r\n1,2,,\r\n2,,,\r\n3,\"\",,\"{\"\"x\"\": [1,\"\"y\"\"]}\"\r\n");
    assert_eq!(
        table(&[r#"{"id":1,"é\n\"x\"":"","__proto__":"+1"}"#]),
        "id,\"é\n\"\"x\"\"\",__proto__\r\n1,\"\",+1\r\n"
    );
}

#[test]
fn a_cell_is_what_the_origin_sent() {
    for (value, cell) in [
        ("4.50", "4.50"),
        ("-97.12300000000000000000001", "-97.12300000000000000000001"),
        ("1e3", "1e3"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("true", "true"),
        ("null", ""),
        (r#""""#, r#""""#),
        (r#""null""#, "null"),
        (r#""=1+1""#, "=1+1"),
        (r#""@SUM(A1)""#, "@SUM(A1)"),
        (r#""a,b""#, r#""a,b""#),
        (r#""say \"hi\"""#, r#""say ""hi""""#),
        (r#""two\r\nlines""#, "\"two\r\nlines\""),
        (r#"" edge""#, "\" edge\""),
        (r#""tab\t""#, "\"tab\t\""),
        (r#""S\u00e3o \ud83c\udfdf""#, "São \u{1f3df}"),
        (r#""nul\u0000""#, "nul\0"),
        (r#""half \ud83c""#, "half \u{fffd}"),
        ("[\n1,\r\n\"a\\nb\"]", "\"[ 1,  \"\"a\\nb\"\"]\""),
    ] {
        let mut out = Vec::new();
        Columns::default().put_value(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), cell, "{value}");
    }
}

#[test]
fn of_a_repeated_key_the_last_value_counts() {
    assert_eq!(table(&[r#"{"id":1,"a":"x","a":"y"}"#]), "id,a\r\n1,y\r\n");
}

#[test]
fn so_many_columns_that_no_table_is_meant_are_refused() {
    let mut columns = Columns::default();
    let keys = |n: usize| (0..n).map(|n| format!("\"k{n}\":0")).collect::<Vec<_>>().join(",");
    assert!(columns.learn(&summary(&format!("{{{}}}", keys(MOST_COLUMNS)))).is_ok());
    assert!(columns.learn(&summary(r#"{"k0":1}"#)).is_ok());
    assert!(matches!(columns.learn(&summary(r#"{"one more":1}"#)), Err(DumpError::Columns(MOST_COLUMNS))));
}

fn value() -> impl Strategy<Value = (String, String)> {
    let quoted = |text: String| (Value::from(text.as_str()).to_string(), text);
    prop_oneof![
        any::<String>().prop_map(quoted),
        "[\"',\r\n \t=+@-]{0,6}".prop_map(quoted),
        any::<i64>().prop_map(|number| (number.to_string(), number.to_string())),
        "-?[1-9][0-9]{0,40}[.][0-9]{1,40}".prop_map(|number| (number.clone(), number)),
        any::<bool>().prop_map(|truth| (truth.to_string(), truth.to_string())),
        Just(("null".to_owned(), String::new())),
        prop::collection::vec(any::<String>(), 0..3).prop_map(|texts| {
            let text = Value::from(texts).to_string();
            (text.clone(), text)
        }),
    ]
}

proptest! {
    #[test]
    fn another_reader_gets_every_cell_back(
        keys in prop::collection::hash_set(any::<String>(), 1..6),
        rows in prop::collection::vec(prop::collection::vec(value(), 6), 1..6),
    ) {
        let keys: Vec<String> = keys.into_iter().collect();
        let listing = |row: &Vec<(String, String)>| {
            let fields = keys.iter().zip(row).map(|(key, (value, _))| format!("{}:{value}", json::quote(key)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        };
        let listings: Vec<String> = rows.iter().map(listing).collect();
        let text = table(&listings.iter().map(String::as_str).collect::<Vec<_>>());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        prop_assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), keys.clone());
        // A row of one column without a value is an empty line, which that reader skips.
        if keys.len() > 1 {
            let read: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), rows.len());
            for (record, row) in read.iter().zip(&rows) {
                let expected: Vec<&str> = row.iter().take(keys.len()).map(|(_, cell)| cell.as_str()).collect();
                prop_assert_eq!(record.iter().collect::<Vec<_>>(), expected);
            }
        }
    }
}
#[test]
fn for_excel_a_table_has_a_mark_and_no_formulas() {
    let columns = Columns { bom: true, ..Columns::default() };
    let mut out = Vec::new();
    columns.header(&mut out);
    assert!(out.starts_with(b"\xef\xbb\xbf"));
    for (value, cell) in [
        (r#""=1+1""#, "'=1+1"),
        (r#""@SUM(A1)""#, "'@SUM(A1)"),
        (r#""+1, 2""#, "\"'+1, 2\""),
        (r#""-5.5""#, "-5.5"),
        (r#"" =1+1""#, "' =1+1"),
        (r#""\t=1+1""#, "'\t=1+1"),
        (r#""\r\n@A1""#, "\"'\r\n@A1\""),
        (r#""\n+A1""#, "\"'\n+A1\""),
        ("\"\u{a0}-A1\"", "'\u{a0}-A1"),
        ("\"\u{3000}＝1+1\"", "'\u{3000}＝1+1"),
        (r#""＋A1""#, "'＋A1"),
        (r#""－A1""#, "'－A1"),
        (r#""＠A1""#, "'＠A1"),
        (r#""\tx""#, "'\tx"),
        (r#""\rx""#, "\"'\rx\""),
        (r#"" -5.5""#, "\" -5.5\""),
        (r#"" x""#, "\" x\""),
        ("-97.1", "-97.1"),
        (r#""a=b""#, "a=b"),
    ] {
        let mut out = Vec::new();
        columns.put_value(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), cell, "{value}");
    }
}

#[test]
fn fields_of_details_have_columns_with_dots_and_the_rest_is_in_the_last_one() {
    let detail = r#"{"id":1,"address":{"street":"A","geo":{"lat":1.50,"deep":{"x":1}},"none":{}},"hours":["9-5"],"more":2,"city_slug":"x"}"#;
    let detail = Bytes::copy_from_slice(detail.as_bytes());
    let mut columns = Columns::default();
    columns.learn(&summary(r#"{"id":1,"name":"N"}"#)).unwrap();
    columns.slugs.push(("city_slug", (Vec::new(), vec![NO_SLUG; 4])));
    columns.note_detail(Some(detail.clone()));
    columns.end_details();
    let mut out = Vec::new();
    columns.header(&mut out);
    columns.row(0, &summary(r#"{"id":1,"name":"N"}"#), Some(&detail), &mut out).unwrap();
    let other = Bytes::from_static(br#"{"phone":"5","hours":null}"#);
    columns.row(0, &summary(r#"{"id":2,"name":"O"}"#), Some(&other), &mut out).unwrap();
    let both = Bytes::from_static(br#"{"address.street":"B","address":{"street":"A"}}"#);
    columns.row(1, &summary(r#"{"id":9,"name":"R"}"#), Some(&both), &mut out).unwrap();
    columns.row(2, &summary(r#"{"id":3,"name":"P"}"#), None, &mut out).unwrap();
    columns.row(3, &summary(r#"{"id":4,"name":"Q"}"#), Some(&Bytes::from_static(b"[1]")), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let names = "id,name,city_slug,detail.id,address.street,address.geo.lat,address.geo.deep,address.none,hours,detail.more,detail.city_slug,more";
    let rows = [
        r#"1,N,,1,A,1.50,"{""x"":1}",{},"[""9-5""]",2,x,"#,
        r#"2,O,,,,,,,,,,"{""phone"":""5""}""#,
        r#"9,R,,,A,,,,,,,"{""address.street"":""B""}""#,
        "3,P,,,,,,,,,,",
        "4,Q,,,,,,,,,,[1]",
    ];
    assert_eq!(text, [&[names], &rows[..]].concat().join("\r\n") + "\r\n");
}

#[test]
fn three_hundred_fields_of_details_have_columns() {
    let detail = (0..400).map(|n| format!("\"f{n}\":{n}")).collect::<Vec<_>>().join(",");
    let mut columns = Columns::default();
    columns.note_detail(Some(format!("{{{detail}}}").into()));
    columns.end_details();
    let mut out = Vec::new();
    columns.header(&mut out);
    assert_eq!(String::from_utf8(out).unwrap().split(',').count(), MOST_OF_DETAILS + 1);
    let mut out = Vec::new();
    columns.row(0, &summary("{}"), Some(&format!("{{{detail}}}").into()), &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("\"\"f399\"\":399}"));
}

#[test]
fn a_long_name_is_written_once_and_has_no_column() {
    let long = "k".repeat(1 << 16);
    let inner: Vec<String> = (0..1_000).map(|n| format!("\"a{n}\":{n}")).collect();
    let detail: Bytes = format!("{{\"{long}\":{{{}}},\"id\":1}}", inner.join(",")).into();
    let mut columns = Columns::default();
    columns.note_detail(Some(detail.clone()));
    columns.end_details();
    let mut out = Vec::new();
    columns.header(&mut out);
    assert_eq!(out, b"id,more\r\n");
    columns.row(0, &summary("{}"), Some(&detail), &mut out).unwrap();
    assert!(out.len() < 2 * detail.len(), "{}", out.len());
}
