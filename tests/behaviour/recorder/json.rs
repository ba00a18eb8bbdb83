//! A strict reader of JSON (RFC 8259), by which tests check what the recorder writes.

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    pub(super) fn find(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(fields) => {
                fields.iter().find(|field| field.0 == name).map(|field| &field.1)
            }
            _ => None,
        }
    }

    #[track_caller]
    pub(super) fn field(&self, name: &str) -> &Value {
        self.find(name).unwrap_or_else(|| panic!("no field '{name}' in {self:?}"))
    }

    #[track_caller]
    pub(super) fn text(&self) -> &str {
        match self {
            Value::Text(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn number(&self) -> f64 {
        match self {
            Value::Number(number) => *number,
            other => panic!("no number: {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn items(&self) -> &[Value] {
        match self {
            Value::List(items) => items,
            other => panic!("no list: {other:?}"),
        }
    }
}

/// Reads a text that is one value.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value()?;
    reader.skip_space();
    if reader.at == text.len() { Ok(value) } else { Err(reader.error("the end")) }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn error(&self, wanted: &str) -> String {
        let rest: String = self.text[self.at..].chars().take(40).collect();
        format!("at byte {}: {wanted} expected, found {rest:?}", self.at)
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\n', '\r', '\t']).len();
    }

    /// Skips space, and then this text, if it is there.
    fn take(&mut self, text: &str) -> bool {
        self.skip_space();
        let is_there = self.text[self.at..].starts_with(text);
        if is_there {
            self.at += text.len();
        }
        is_there
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) { Ok(()) } else { Err(self.error(text)) }
    }

    fn value(&mut self) -> Result<Value, String> {
        if self.take("{") {
            let mut fields = Vec::new();
            if self.take("}") {
                return Ok(Value::Object(fields));
            }
            loop {
                self.expect("\"")?;
                let name = self.string()?;
                self.expect(":")?;
                fields.push((name, self.value()?));
                if !self.take(",") {
                    self.expect("}")?;
                    return Ok(Value::Object(fields));
                }
            }
        }
        if self.take("[") {
            let mut items = Vec::new();
            if self.take("]") {
                return Ok(Value::List(items));
            }
            loop {
                items.push(self.value()?);
                if !self.take(",") {
                    self.expect("]")?;
                    return Ok(Value::List(items));
                }
            }
        }
        if self.take("\"") {
            return self.string().map(Value::Text);
        }
        for (text, value) in
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
        {
            if self.take(text) {
                return Ok(value);
            }
        }
        let rest = &self.text[self.at..];
        let length =
            rest.find(|letter: char| !"+-.eE0123456789".contains(letter)).unwrap_or(rest.len());
        let number = rest[..length].parse().map_err(|_| self.error("a value"))?;
        self.at += length;
        Ok(Value::Number(number))
    }

    /// Reads a string whose opening quote has been read.
    fn string(&mut self) -> Result<String, String> {
        let mut out = String::new();
        loop {
            let letter =
                self.text[self.at..].chars().next().ok_or_else(|| self.error("a quote"))?;
            self.at += letter.len_utf8();
            match letter {
                '"' => return Ok(out),
                '\\' => out.push(self.escape()?),
                '\0'..='\x1f' => return Err(self.error("no control character")),
                _ => out.push(letter),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let kind = self.text[self.at..].chars().next().ok_or_else(|| self.error("an escape"))?;
        self.at += kind.len_utf8();
        Ok(match kind {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '"' | '\\' | '/' => kind,
            'u' => {
                let digits = self.text.get(self.at..self.at + 4).ok_or("four digits expected")?;
                let number = u32::from_str_radix(digits, 16).map_err(|_| self.error("digits"))?;
                self.at += 4;
                char::from_u32(number).ok_or_else(|| self.error("no surrogate"))?
            }
            _ => return Err(self.error("an escape")),
        })
    }
}
