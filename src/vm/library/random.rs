//! MT19937, the generator behind `math.random`.
//!
//! Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform
//! pseudorandom number generator" (1998). A machine has one generator; until `math.srand` it begins
//! with the customary seed 5489, so that a program gives the same numbers each time.

const SIZE: usize = 624;
const SHIFT: usize = 397;

/// The generator's state.
pub struct Mt19937 {
    state: [u32; SIZE],
    /// The next word to give out.
    next: usize,
}

impl Default for Mt19937 {
    fn default() -> Mt19937 {
        Mt19937::new(5489)
    }
}

impl Mt19937 {
    /// A generator that begins with a seed.
    pub fn new(seed: u32) -> Mt19937 {
        let mut state = [0; SIZE];
        state[0] = seed;
        for i in 1..SIZE {
            let last: u32 = state[i - 1];
            state[i] = (last ^ last >> 30).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Mt19937 { state, next: SIZE }
    }

    /// The next 32 random bits.
    pub fn next(&mut self) -> u32 {
        if self.next == SIZE {
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }

    fn twist(&mut self) {
        for i in 0..SIZE {
            let y = self.state[i] & 0x8000_0000 | self.state[(i + 1) % SIZE] & 0x7fff_ffff;
            let odd = if y & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[i] = self.state[(i + SHIFT) % SIZE] ^ y >> 1 ^ odd;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_thousandth_number_is_what_the_standard_of_cpp_says() {
        let mut random = Mt19937::default();
        let last = (0..10_000).map(|_| random.next()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn a_seed_decides_the_sequence() {
        let first = |seed| Mt19937::new(seed).next();
        assert_eq!(first(1), 1_791_095_845);
        assert_ne!(first(1), first(2));
    }
}
