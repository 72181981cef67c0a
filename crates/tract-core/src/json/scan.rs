//! The JSON scanner, shared by checking, splitting and canonicalizing.

use super::number;
use super::string::{self, Literal};
use super::{JsonError, MAX_BYTES, MAX_DEPTH};

/// A position in a text. [`Scanner::item`] reads a whole scalar, but only the opening bracket of a
/// container: the caller continues with [`Scanner::members`] or [`Scanner::elements`].
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Maximum nesting depth.
    most: usize,
}

/// The item at the scanner's position.
pub(super) enum Item<'a> {
    Object,
    Array,
    String(Literal<'a>),
    Integer(&'a str),
    Float(f64),
    /// `null`, `true` or `false`.
    Word(&'static str),
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, JsonError> {
        if text.len() > MAX_BYTES {
            return Err(JsonError::TooLarge { size_bytes: text.len(), limit_bytes: MAX_BYTES });
        }
        Ok(Self { text, at: 0, depth: 0, most: MAX_DEPTH })
    }

    /// Raises the maximum depth by this many levels.
    pub(super) fn deeper(self, levels: usize) -> Self {
        Self { most: self.most + levels, ..self }
    }

    /// Checks that only white space is left.
    pub(super) fn finish(&mut self) -> Result<(), JsonError> {
        match self.next_token() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end")),
        }
    }

    /// Reads the opening bracket of a container.
    pub(super) fn open(&mut self, bracket: u8, expected: &'static str) -> Result<(), JsonError> {
        if self.next_token() != Some(bracket) {
            return Err(self.unexpected(expected));
        }
        self.enter()
    }

    pub(super) fn item(&mut self) -> Result<Item<'a>, JsonError> {
        match self.next_token() {
            Some(b'"') => Ok(Item::String(self.string()?)),
            Some(b'{') => self.enter().map(|()| Item::Object),
            Some(b'[') => self.enter().map(|()| Item::Array),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word("null"),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// Reads and checks one value.
    pub(super) fn skip(&mut self) -> Result<(), JsonError> {
        match self.item()? {
            // Recursion is safe here: `enter` refuses more than `most` levels.
            Item::Object => self.members(|scan, _| scan.skip()),
            Item::Array => self.elements(Self::skip),
            Item::String(_) | Item::Integer(_) | Item::Float(_) | Item::Word(_) => Ok(()),
        }
    }

    /// Reads and checks one value and returns it as written, without surrounding white space.
    pub(super) fn raw(&mut self) -> Result<&'a str, JsonError> {
        self.next_token();
        let from = self.at;
        self.skip()?;
        Ok(self.since(from))
    }

    /// Reads the members of an object. `each` gets every key and must read the value.
    pub(super) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, Literal<'a>) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        if self.next_token() != Some(b'}') {
            loop {
                if self.next_token() != Some(b'"') {
                    return Err(self.unexpected("a key in double quotes"));
                }
                let key = self.string()?;
                if self.next_token() != Some(b':') {
                    return Err(self.unexpected("`:`"));
                }
                self.at += 1;
                each(self, key)?;
                match self.next_token() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return Err(self.unexpected("`,` or `}`")),
                }
            }
        }
        self.leave();
        Ok(())
    }

    /// Reads the elements of an array. `each` must read one element.
    pub(super) fn elements(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        let mut is_first = true;
        while self.next_element(is_first)? {
            is_first = false;
            each(self)?;
        }
        Ok(())
    }

    /// Advances to the next element of an array. Returns false at the end of the array.
    #[inline]
    pub(super) fn next_element(&mut self, is_first: bool) -> Result<bool, JsonError> {
        match (self.next_token(), is_first) {
            (Some(b']'), _) => {
                self.leave();
                Ok(false)
            }
            (_, true) => Ok(true),
            (Some(b','), false) => {
                self.at += 1;
                Ok(true)
            }
            (_, false) => Err(self.unexpected("`,` or `]`")),
        }
    }

    fn enter(&mut self) -> Result<(), JsonError> {
        if self.depth == self.most {
            return Err(JsonError::TooDeep { offset: self.at, limit: self.most });
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn string(&mut self) -> Result<Literal<'a>, JsonError> {
        let from = self.at;
        self.at += 1;
        let (mut wide, mut respelt) = (false, false);
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let run = string::run(rest);
            wide |= run.wide;
            self.at += run.len;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    let escape = rest.get(run.len + 1..).unwrap_or_default();
                    let (character, len) =
                        string::unescape(escape).map_err(|fault| match fault {
                            string::Fault::Unknown { at } => {
                                self.at += 1 + at;
                                self.unexpected("an escape sequence")
                            }
                            string::Fault::LoneSurrogate => {
                                JsonError::LoneSurrogate { offset: self.at }
                            }
                        })?;
                    respelt |= len > 1 || character == '/';
                    self.at += 1 + len;
                }
                Some(_) => return Err(self.unexpected("an escaped control character")),
                None => return Err(self.unexpected("`\"`")),
            }
        }
        self.at += 1;
        Ok(Literal { raw: self.since(from), wide, respelt })
    }

    fn number(&mut self) -> Result<Item<'a>, JsonError> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let lexeme = self.since(from);
        if integer {
            return Ok(Item::Integer(if lexeme == "-0" { "0" } else { lexeme }));
        }
        match number::parse(lexeme) {
            Some(value) => Ok(Item::Float(value)),
            None => Err(JsonError::NotFinite { offset: Some(from) }),
        }
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += len;
        if len == 0 { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    fn word(&mut self, word: &'static str) -> Result<Item<'a>, JsonError> {
        if !self.text.as_bytes().get(self.at..).unwrap_or_default().starts_with(word.as_bytes()) {
            return Err(self.unexpected("a value"));
        }
        self.at += word.len();
        Ok(Item::Word(word))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and returns the next byte.
    fn next_token(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                token => return token,
            }
        }
    }

    /// Returns the text from `from` to the current position. Both are next to an ASCII character,
    /// so slicing cannot split a character.
    fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    fn unexpected(&self, expected: &'static str) -> JsonError {
        let found = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        JsonError::Syntax { offset: self.at, expected, found }
    }
}
