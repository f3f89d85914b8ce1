//! Numbers of variable width in bytes, and reading them back. Called by everything in `segment`.
//! Never reads past its end: a number that is cut off or too large is damage.

use super::SegmentError;

/// Appends a number, seven bits a byte, the low ones first.
pub(super) fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends a number that may be negative; small ones stay short.
pub(super) fn put_signed(into: &mut Vec<u8>, number: i64) {
    put(into, ((number << 1) ^ (number >> 63)) as u64);
}

/// Bytes that are read from the front.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, SegmentError> {
        let (first, rest) = self.0.split_first().ok_or(SegmentError::Damaged("cut off"))?;
        self.0 = rest;
        Ok(*first)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, SegmentError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(SegmentError::Damaged("a number without an end"))
    }

    #[inline]
    pub(super) fn small(&mut self) -> Result<u32, SegmentError> {
        u32::try_from(self.number()?).map_err(|_| SegmentError::Damaged("a number that is too large"))
    }

    /// A number of things of which each takes a byte at least.
    pub(super) fn count(&mut self) -> Result<usize, SegmentError> {
        let count = self.small()? as usize;
        if count > self.0.len() {
            return Err(SegmentError::Damaged("a count that is too large"));
        }
        Ok(count)
    }

    pub(super) fn signed(&mut self) -> Result<i64, SegmentError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], SegmentError> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(SegmentError::Damaged("cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u64(&mut self) -> Result<u64, SegmentError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(SegmentError::Damaged("cut off"))?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(super) fn u32(&mut self) -> Result<u32, SegmentError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(SegmentError::Damaged("cut off"))?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        for number in numbers {
            put(&mut bytes, number);
            put_signed(&mut bytes, number as i64);
            put_signed(&mut bytes, (number as i64).wrapping_neg());
        }
        let mut read = Bytes(&bytes);
        for number in numbers {
            assert_eq!(read.number().unwrap(), number);
            assert_eq!(read.signed().unwrap(), number as i64);
            assert_eq!(read.signed().unwrap(), (number as i64).wrapping_neg());
        }
        assert!(read.is_empty() && read.byte().is_err());
        assert!(Bytes(&[0xff; 11]).number().is_err());
    }
}
