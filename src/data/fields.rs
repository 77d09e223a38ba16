//! Fields off the front of bytes, little endian: how records of the store and of bundles are read, and texts are written.
//!
//! Reading trusts nothing. Callers: [`super::store`], [`super::bundle`].

/// What is read, for the errors about it.
pub(super) trait Subject {
    type Error;

    /// The error for a wrong `what` in it.
    fn wrong(&self, what: &str) -> Self::Error;
}

pub(super) struct Fields<'a, S> {
    pub rest: &'a [u8],
    pub of: S,
}

impl<'a, S: Subject> Fields<'a, S> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], S::Error> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.of.wrong("length"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], S::Error> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.of.wrong("length"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, S::Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, S::Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, S::Error> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, S::Error> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| self.of.wrong("text"))
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<&'a str>, S::Error> {
        match self.u8()? {
            0 => Ok(None),
            1 => self.text().map(Some),
            _ => Err(self.of.wrong("tag")),
        }
    }
}

/// Writes what [`Fields::text`] reads, if it is a text.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

/// Writes what [`Fields::optional_text`] reads.
pub(super) fn put_optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text.as_bytes());
    }
}
