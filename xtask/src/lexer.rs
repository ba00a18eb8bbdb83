//! The part of Rust's token grammar that the checks need: it separates code, comments and literals,
//! and gives each its line.
//!
//! It need not reject invalid programs (rustc does that), but it must never take a comment or a
//! string for code.

/// The kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier, a keyword or a number.
    Word,
    /// `::`
    PathSeparator,
    /// Any other single character.
    Punctuation,
    /// A string or character literal.
    Literal,
    /// `'a`
    Lifetime,
}

/// A token of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// The line, counted from 1.
    pub(crate) line: usize,
}

/// The tokens and comments of a source file.
#[derive(Debug)]
pub(crate) struct Lexed<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    /// One entry for each line of each comment: its line and its text.
    pub(crate) comments: Vec<(usize, &'a str)>,
}

/// Splits a source file into tokens and comments.
pub(crate) fn lex(source: &str) -> Lexed<'_> {
    let mut lexer =
        Lexer { source, at: 0, line: 1, out: Lexed { tokens: vec![], comments: vec![] } };
    while lexer.at < source.len() {
        lexer.step();
    }
    lexer.out
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    out: Lexed<'a>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn step(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().expect("step is called before the end only");
        if rest.starts_with("//") {
            self.comment(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.comment(block_comment_len(rest));
        } else if let Some(len) = string_len(rest) {
            self.push(Kind::Literal, len);
        } else if first == '\'' {
            self.quote(rest);
        } else if let Some(raw) = rest.strip_prefix("r#").filter(|r| r.starts_with(is_word)) {
            self.push(Kind::Word, 2 + word_len(raw));
        } else if is_word(first) {
            self.push(Kind::Word, word_len(rest));
        } else if rest.starts_with("::") {
            self.push(Kind::PathSeparator, 2);
        } else if first.is_whitespace() {
            self.advance(first.len_utf8());
        } else {
            self.push(Kind::Punctuation, first.len_utf8());
        }
    }

    /// Reads a lifetime or a character literal, which begin alike.
    fn quote(&mut self, rest: &'a str) {
        let mut chars = rest[1..].chars();
        let (first, second) = (chars.next(), chars.next());
        if first == Some('\\') {
            let close = rest[3..].find('\'').map_or(rest.len(), |i| i + 4);
            self.push(Kind::Literal, close);
        } else if second == Some('\'') {
            self.push(Kind::Literal, 2 + first.map_or(0, char::len_utf8));
        } else {
            self.push(Kind::Lifetime, 1 + word_len(&rest[1..]));
        }
    }

    fn push(&mut self, kind: Kind, len: usize) {
        let text = &self.rest()[..len];
        self.out.tokens.push(Token { kind, text, line: self.line });
        self.advance(len);
    }

    fn comment(&mut self, len: usize) {
        let text = &self.rest()[..len];
        for (offset, line) in text.lines().enumerate() {
            self.out.comments.push((self.line + offset, line.trim()));
        }
        self.advance(len);
    }

    fn advance(&mut self, len: usize) {
        self.line += self.rest()[..len].matches('\n').count();
        self.at += len;
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn word_len(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of the string literal at the start of the text, prefix included.
fn string_len(text: &str) -> Option<usize> {
    let prefix = text.find(|c| !matches!(c, 'b' | 'c' | 'r')).filter(|&len| len <= 2)?;
    let raw = text[..prefix].contains('r');
    let hashes = if raw { text[prefix..].bytes().take_while(|&b| b == b'#').count() } else { 0 };
    let body = text[prefix + hashes..].strip_prefix('"')?;
    let start = text.len() - body.len();
    if raw {
        let close = format!("\"{}", "#".repeat(hashes));
        return Some(body.find(&close).map_or(text.len(), |i| start + i + close.len()));
    }
    let mut escaped = false;
    for (i, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(start + i + 1),
            _ => {}
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::{Kind, lex};

    fn words(source: &str) -> Vec<&str> {
        lex(source).tokens.iter().filter(|t| t.kind == Kind::Word).map(|t| t.text).collect()
    }

    #[test]
    fn code_in_comments_and_strings_is_not_code() {
        let source = "a // b\n/* c /* d */ e */ f \"g\\\" h\" r#\"i \" j\"# b\"k\" br\"l\\\" m";
        assert_eq!(words(source), ["a", "f", "m"]);
    }

    #[test]
    fn lifetimes_and_characters_are_told_apart() {
        assert_eq!(
            words(r"fn f<'a>(c: &'a str) { ['x', '\'', '\n', '\u{41}', ' ']; g }"),
            ["fn", "f", "c", "str", "g"]
        );
        let lifetimes = lex("&'a str; 'outer: loop {}").tokens;
        assert_eq!(lifetimes.iter().filter(|t| t.kind == Kind::Lifetime).count(), 2);
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let lexed = lex("a\n\"b\nc\"\n/* d\ne */\nf");
        assert_eq!(lexed.tokens.last().map(|t| (t.text, t.line)), Some(("f", 6)));
        assert_eq!(lexed.comments, [(4, "/* d"), (5, "e */")]);
    }

    #[test]
    fn raw_identifiers_are_words() {
        assert_eq!(words("r#type r break br"), ["r#type", "r", "break", "br"]);
    }
}
