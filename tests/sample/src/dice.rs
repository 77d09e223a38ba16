//! Tiny deterministic random numbers (splitmix64).
//!
//! Not good randomness: the same seed must give the same world with every version of every dependency. Callers: whatever
//! makes a choice, here and in the test origin.

/// A stream of pseudo-random numbers that depends on nothing but its seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice whose rolls are determined by all of `parts`.
    pub fn of(parts: &[u64]) -> Self {
        let mut dice = Self(0x5EED_0F5E_A50E_D51D);
        for part in parts {
            dice.0 = dice.roll() ^ part;
        }
        dice
    }

    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with the given probability (`0.0..=1.0`).
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// One element of a table, which must not be empty.
    pub fn pick<T: Copy>(&mut self, table: &[T]) -> T {
        table[self.below(table.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_roll_equally_and_stay_within_bounds() {
        let (mut one, mut two) = (Dice::of(&[1, 2]), Dice::of(&[1, 2]));
        assert_ne!(Dice::of(&[1, 2]).roll(), Dice::of(&[2, 1]).roll());
        for bound in 1..500 {
            let rolled = one.below(bound);
            assert!(rolled < bound);
            assert_eq!(rolled, two.below(bound));
        }
        assert_eq!(one.below(0), 0);
    }
}
