//! Reads Rust sources: the syntax tree by `syn`, the tokens by `proc_macro2`, and the comments,
//! which neither of them keeps.

use proc_macro2::{Span, TokenStream, TokenTree};
use std::ops::Range;

/// Parses a file. The error names the file and the line.
pub(crate) fn parse(file: &str, text: &str) -> Result<syn::File, String> {
    syn::parse_file(text).map_err(|error| place(file, error.span(), &error))
}

/// Takes a file apart into tokens. The error names the file and the line.
pub(crate) fn tokens(file: &str, text: &str) -> Result<TokenStream, String> {
    text.parse().map_err(|error: proc_macro2::LexError| place(file, error.span(), &error))
}

fn place(file: &str, span: Span, error: &dyn std::fmt::Display) -> String {
    format!("{file}:{}: {error}", span.start().line)
}

/// Returns the line of a token, counted from 1.
pub(crate) fn line(span: Span) -> usize {
    span.start().line
}

/// Returns the comments in the text of these tokens. Each line of a comment is an entry: its number
/// and its text.
pub(crate) fn comments<'a>(text: &'a str, tokens: &TokenStream) -> Vec<(usize, &'a str)> {
    let mut code = vec![];
    code_ranges(text, tokens, &mut code);
    code.push(text.len()..text.len());
    let (mut comments, mut end, mut line) = (vec![], 0, 1);
    for range in code {
        let gap = &text[end..range.start];
        for (offset, comment) in gap.lines().enumerate() {
            if !comment.trim().is_empty() {
                comments.push((line + offset, comment.trim()));
            }
        }
        line += text[end..range.end].matches('\n').count();
        end = range.end;
    }
    comments
}

/// Collects the ranges of all tokens. A doc comment is a token, too, but not code.
fn code_ranges(text: &str, tokens: &TokenStream, code: &mut Vec<Range<usize>>) {
    for tree in tokens.clone() {
        let range = tree.span().byte_range();
        if text[range.clone()].starts_with("//") || text[range.clone()].starts_with("/*") {
            continue;
        }
        match tree {
            TokenTree::Group(group) => {
                code.push(group.span_open().byte_range());
                code_ranges(text, &group.stream(), code);
                code.push(group.span_close().byte_range());
            }
            _ => code.push(range),
        }
    }
}

/// Returns the trees of a stream as a list, for patterns.
pub(crate) fn trees(tokens: &TokenStream) -> Vec<TokenTree> {
    tokens.clone().into_iter().collect()
}

/// Returns true if the tree is this punctuation character.
pub(crate) fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// Returns true if the stream has this word, at any depth.
pub(crate) fn has_word(tokens: &TokenStream, word: &str) -> bool {
    tokens.clone().into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == word,
        TokenTree::Group(group) => has_word(&group.stream(), word),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{comments, has_word, parse, tokens};

    fn comments_of(text: &str) -> Vec<(usize, &str)> {
        comments(text, &tokens("a.rs", text).unwrap())
    }

    #[test]
    fn comments_are_told_from_code_and_strings() {
        let text = "a / b // c\n/* d /* e */ f */ g \"// h\\\" i\" r#\"/* \" j\"# b\"//\" br\"//\\\" '/' m";
        assert_eq!(comments_of(text), [(1, "// c"), (2, "/* d /* e */ f */")]);
        let code = tokens("a.rs", text).unwrap();
        assert!(has_word(&code, "g") && has_word(&code, "m"));
        assert!(!["c", "d", "f", "h", "j"].iter().any(|word| has_word(&code, word)));
    }

    #[test]
    fn doc_comments_are_comments() {
        let text = "//! a\n/// b\n/** c\n d */\nfn f() {\n    /// e\n    g!(\n        /// h\n    )\n}\n#[doc = \"i\"]";
        let lines =
            [(1, "//! a"), (2, "/// b"), (3, "/** c"), (4, "d */"), (6, "/// e"), (8, "/// h")];
        assert_eq!(comments_of(text), lines);
    }

    #[test]
    fn lifetimes_and_characters_are_told_apart() {
        let text = r"fn f<'a>(c: &'a str) { ['x', '\'', '\n', '\u{41}', ' ', '/']; } // g";
        assert_eq!(comments_of(text), [(1, "// g")]);
    }

    #[test]
    fn lines_are_counted_through_everything() {
        assert_eq!(
            comments_of("a\n\"b\nc\"\n/* ä\ne */\nf // ö\n// g"),
            [(4, "/* ä"), (5, "e */"), (6, "// ö"), (7, "// g")]
        );
    }

    #[test]
    fn an_error_names_its_place() {
        let error = |text| parse("a.rs", text).err().unwrap();
        assert_eq!(error("fn f() {}\nfn {}"), "a.rs:2: expected identifier");
        assert!(error("fn f() {}\n\nfn g() {").starts_with("a.rs:3: "));
        assert!(tokens("a.rs", "a\n\"b").unwrap_err().starts_with("a.rs:2: "));
    }
}
