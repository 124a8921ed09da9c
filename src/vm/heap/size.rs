//! Sizes of cells.
//!
//! Small objects live in cells of 34 sizes, from 16 bytes to 8 KiB, never more than a quarter too
//! large; larger ones get memory of their own.

/// Bytes of the cells of each class, ascending.
pub const SIZES: [usize; CLASSES] = [
    16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768,
    896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 8192,
];
pub const CLASSES: usize = 34;
/// The largest object that lives in a cell.
pub const LARGEST: usize = SIZES[CLASSES - 1];
/// Instead of a class: the object gets memory of its own.
pub const LARGE: usize = usize::MAX;

const TABLE: [u8; LARGEST / 8 + 1] = {
    let mut table = [0; LARGEST / 8 + 1];
    let mut class = 0;
    let mut words = 0;
    while words < table.len() {
        if words * 8 > SIZES[class] {
            class += 1;
        }
        table[words] = class as u8;
        words += 1;
    }
    table
};

/// The class whose cells hold so many bytes, or [`LARGE`].
#[inline(always)]
pub const fn class_of(bytes: usize) -> usize {
    if bytes <= LARGEST { TABLE[bytes.div_ceil(8)] as usize } else { LARGE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_smallest_that_fits() {
        for bytes in 1..=LARGEST {
            let class = class_of(bytes);
            assert!(SIZES[class] >= bytes);
            assert!(class == 0 || SIZES[class - 1] < bytes, "{bytes}");
            assert!(bytes < 64 || SIZES[class] * 3 <= bytes.next_multiple_of(8) * 4, "{bytes}");
        }
        assert_eq!(class_of(LARGEST + 1), LARGE);
    }
}
