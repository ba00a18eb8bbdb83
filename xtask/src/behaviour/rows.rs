//! The tests of the rows, and the rows in their doc comments.

use crate::syntax::{self, has_word};
use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, ItemFn, Lit, Macro, MacroDelimiter, Meta};

/// The items of the list in a doc comment, in their order. The first one is optional.
const ITEMS: [&str; 4] = ["row", "given", "when", "then"];

/// A test whose name has the form of an id.
pub(super) struct Test {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) ignored: bool,
    pub(super) row: Option<Row>,
}

/// What a test's doc comment says about its row.
pub(super) struct Row {
    pub(super) id: String,
    /// Given, when, then.
    pub(super) cells: [String; 3],
}

/// Finds the tests that are named as rows are. Test functions have a `test` attribute, or are
/// inside a macro's braces, which put it there.
#[derive(Default)]
pub(super) struct Tests {
    pub(super) found: Vec<Test>,
    /// Lists that are not rows: the line, and what is wrong.
    pub(super) problems: Vec<(usize, String)>,
    in_macro: bool,
}

impl<'ast> Visit<'ast> for Tests {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let is_test = self.in_macro || item.attrs.iter().any(|attribute| has(attribute, "test"));
        let ignored = item.attrs.iter().any(|attribute| has(attribute, "ignore"));
        self.note(&item.sig.ident, is_test, ignored, &doc(&item.attrs));
        visit::visit_item_fn(self, item);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        let outside = self.in_macro;
        self.in_macro |= matches!(called.delimiter, MacroDelimiter::Brace(_));
        if let Ok(items) = called.parse_body::<syn::File>() {
            self.visit_file(&items);
        }
        self.in_macro = outside;
    }
}

impl Tests {
    fn note(&mut self, name: &Ident, is_test: bool, ignored: bool, doc: &[String]) {
        let line = syntax::line(name.span());
        let name = name.to_string();
        let row = match row(&name, doc) {
            Ok(Some(_)) if !is_test => Err(format!("{name} has a row, but is no test")),
            other => other,
        };
        match row {
            Ok(row) if is_test && number(&name).is_some() => {
                self.found.push(Test { name, line, ignored, row })
            }
            Ok(_) => {}
            Err(problem) => self.problems.push((line, problem)),
        }
    }
}

/// Returns true if an attribute has this name, or has it among its arguments.
fn has(attribute: &Attribute, word: &str) -> bool {
    let is_last = |path: &syn::Path| path.segments.last().is_some_and(|last| last.ident == word);
    is_last(attribute.path())
        || matches!(&attribute.meta, Meta::List(list) if has_word(&list.tokens, word))
}

/// Returns the lines of the doc comment.
fn doc(attributes: &[Attribute]) -> Vec<String> {
    let mut lines = vec![];
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(meta) = &attribute.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value
        {
            let text = text.value();
            lines.extend(text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).into()));
        }
    }
    lines
}

/// Reads the list in the doc comment of the test with this name, if there is one.
fn row(name: &str, doc: &[String]) -> Result<Option<Row>, String> {
    let mut items: Vec<(&str, String)> = vec![];
    let mut inside = false;
    for line in doc {
        if let Some((key, text)) = item(line) {
            items.push((key, text.trim().into()));
            inside = true;
        } else if inside && line.starts_with("  ") && !line.trim().is_empty() {
            let (_, text) = items.last_mut().expect("a line is inside of an item");
            text.push(' ');
            text.push_str(line.trim());
        } else {
            inside = false;
        }
    }
    let keys: Vec<&str> = items.iter().map(|(key, _)| *key).collect();
    if keys.is_empty() {
        return Ok(None);
    }
    if keys != ITEMS && keys != ITEMS[1..] {
        return Err(format!(
            "the list of {name} has {}, and not given, when, then",
            keys.join(", ")
        ));
    }
    if let Some((key, _)) = items.iter().find(|(_, text)| text.is_empty()) {
        return Err(format!("in the list of {name} `{key}` is empty"));
    }
    let cells = items.split_off(items.len() - 3);
    let id = match items.pop() {
        None => name.strip_suffix("_slow").unwrap_or(name).into(),
        Some((_, row)) => row.trim_matches('`').to_owned(),
    };
    if number(&id).is_none() {
        return Err(format!("{name} has a row, but `{id}` is no id of the form `topic_07_words`"));
    }
    if !belongs(name, &id) {
        return Err(format!("the name of {name} does not begin with `{id}`"));
    }
    let mut cells = cells.into_iter().map(|(_, text)| text);
    Ok(Some(Row { id, cells: std::array::from_fn(|_| cells.next().unwrap_or_default()) }))
}

/// Returns the key and the text of a line that begins one of the items.
fn item(line: &str) -> Option<(&'static str, &str)> {
    let (key, text) = line.strip_prefix("- ")?.split_once(':')?;
    ITEMS.into_iter().find(|item| *item == key).map(|key| (key, text))
}

/// Returns true if the test with this name shows the row with this id.
pub(super) fn belongs(name: &str, id: &str) -> bool {
    name.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// `topic_07` of `topic_07_words`. A number has two digits or three.
pub(super) fn number(id: &str) -> Option<&str> {
    let mut parts = id.splitn(3, '_');
    let (topic, number, words) = (parts.next()?, parts.next()?, parts.next()?);
    let is_topic = !topic.is_empty() && topic.bytes().all(|b| b.is_ascii_lowercase());
    let is_number = matches!(number.len(), 2 | 3) && number.bytes().all(|b| b.is_ascii_digit());
    (is_topic && is_number && !words.is_empty()).then(|| &id[..topic.len() + 1 + number.len()])
}
