//! The hash of dictionaries: for words one multiplication to 128 bits whose halves are folded, for
//! text the same over 16 bytes at a time (the method of wyhash).

const P0: u64 = 0xa076_1d64_78bd_642f;
const P1: u64 = 0xe703_7ed1_a0b4_28db;
const P2: u64 = 0x8ebc_6af0_9c88_c6e3;

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// The hash of a word.
#[inline(always)]
pub fn of_word(seed: u64, word: u64) -> u32 {
    let hash = fold(word ^ seed ^ P0, P1);
    (hash ^ hash >> 32) as u32
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The hash of text; never 0.
pub fn of_bytes(seed: u64, bytes: &[u8]) -> u32 {
    let mut hash = seed ^ P2;
    let mut pieces = bytes.chunks_exact(16);
    for piece in &mut pieces {
        let (low, high) = piece.split_at(8);
        hash = fold(word(low) ^ P0, word(high) ^ hash);
    }
    let rest = pieces.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    hash = fold(word(low) ^ P1, word(high) ^ hash);
    hash = fold(hash ^ bytes.len() as u64, P0 ^ P2);
    let hash = (hash ^ hash >> 32) as u32;
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every input that programs like to count in must spread over the low bits.
    fn spreads(hashes: impl Iterator<Item = u32>) {
        let mut buckets = vec![0u32; 1 << 12];
        for hash in hashes {
            buckets[hash as usize & 0xfff] += 1;
        }
        // 16 on average.
        assert!(buckets.iter().all(|&n| n < 64), "{:?}", buckets.iter().max());
    }

    #[test]
    fn hashes_spread() {
        for seed in [0, 1, u64::MAX, P0] {
            for step in [1, 2, 8, 1 << 16, 1 << 20, 1 << 32, 1 << 47, 0x1_0001] {
                spreads((0..1u64 << 16).map(|i| of_word(seed, i.wrapping_mul(step))));
            }
            spreads((0..1u64 << 16).map(|i| of_word(seed, (i as f64).to_bits())));
            spreads((0..1u64 << 16).map(|i| of_word(seed, (i as f64 / 3.0).to_bits())));
            spreads((0..1u64 << 16).map(|i| of_word(seed, (i as f32).to_bits().into())));
            spreads((0..1u32 << 16).map(|i| of_bytes(seed, i.to_string().as_bytes())));
            spreads(
                (0..1u32 << 16)
                    .map(|i| of_bytes(seed, format!("the key number {i:020}").as_bytes())),
            );
            spreads(
                (0..1usize << 16)
                    .map(|i| of_bytes(seed, &vec![b'a'; i % 4096 + i / 4096 * 3]))
                    .take(4096)
                    .cycle()
                    .take(4096),
            );
        }
    }

    #[test]
    fn zero_bytes_count() {
        let texts: [&[u8]; 6] = [b"", b"\0", b"\0\0", &[0; 16], &[0; 17], &[0; 32]];
        let mut hashes: Vec<_> = texts.iter().map(|text| of_bytes(0, text)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), texts.len());
    }
}
