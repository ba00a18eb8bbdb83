//! Part of `cargo xtask public`: readers of a public item find an example.
//!
//! | item | has an example if |
//! |---|---|
//! | a macro, a free function | its own documentation has one |
//! | a type, a trait | its page has one: its own documentation, or that of a method |
//! | a type that is an error, or that an item with an example returns or has as a field | always |
//! | a method that may wait | its own documentation has one, or an example of the page calls it |
//!
//! A text that says where the example is, such as "See `read` for an example", counts as one. A
//! method may wait if it has a section on cancellation that does not deny it.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the public items of a package without an example, each with its place. `pages` is what
/// rustdoc writes.
pub(crate) fn without_example(pages: &Value) -> Vec<String> {
    let mut items = Items { pages, types: vec![], functions: vec![], seen: BTreeSet::new() };
    items.walk(&pages["root"]);
    items.without_example()
}

struct Items<'p> {
    pages: &'p Value,
    types: Vec<&'p Value>,
    /// Free functions and macros.
    functions: Vec<&'p Value>,
    seen: BTreeSet<u64>,
}

impl<'p> Items<'p> {
    fn item(&self, id: &Value) -> Option<&'p Value> {
        let item = self.pages["index"].get(id.as_u64()?.to_string())?;
        (item["crate_id"] == 0).then_some(item)
    }

    fn items(&self, ids: &'p Value) -> impl Iterator<Item = &'p Value> {
        ids.as_array().into_iter().flatten().filter_map(|id| self.item(id))
    }

    /// Collects what can be reached from a module.
    fn walk(&mut self, id: &'p Value) {
        let Some(item) = self.item(id) else { return };
        let (kind, inner) = inner(item);
        if kind != "use" && !self.seen.insert(id.as_u64().unwrap_or_default()) {
            return;
        }
        match kind {
            "use" if inner["is_glob"] == true => {
                let Some(from) = self.item(&inner["id"]) else { return };
                self.walk_all(&self::inner(from).1["items"]);
            }
            "use" => self.walk(&inner["id"]),
            "module" => self.walk_all(&inner["items"]),
            "struct" | "enum" | "union" | "trait" => self.types.push(item),
            "function" | "macro" | "proc_macro" => self.functions.push(item),
            _ => {}
        }
    }

    fn walk_all(&mut self, ids: &'p Value) {
        ids.as_array().into_iter().flatten().for_each(|id| self.walk(id));
    }

    fn without_example(&self) -> Vec<String> {
        let pages: Vec<Page<'p>> = self.types.iter().map(|item| self.page(item)).collect();
        // What these return or contain is shown by their examples.
        let mut shown = BTreeSet::new();
        let (with, without): (Vec<&Value>, Vec<&Value>) =
            self.functions.iter().copied().partition(|item| has_example(item));
        for item in with {
            types_in(&item["inner"]["function"]["sig"]["output"], &mut shown);
        }
        for page in &pages {
            page.show(&mut shown);
        }
        // A field of a shown type is shown.
        let mut before = 0;
        while before < shown.len() {
            before = shown.len();
            for page in &pages {
                if page.has_example() || shown.contains(&page.id()) {
                    page.fields.iter().for_each(|field| types_in(&field["inner"], &mut shown));
                }
            }
        }
        let is_shown = |page: &&Page| !page.has_example() && !shown.contains(&page.id());
        let types =
            pages.iter().filter(is_shown).filter(|page| !page.is_error).map(|page| page.item);
        let methods = pages.iter().flat_map(|page| page.waits_without_example());
        let mut found: Vec<_> = without.into_iter().chain(types).chain(methods).collect();
        found.sort_by_key(|item| place(item));
        found.into_iter().map(place).collect()
    }

    /// Collects what the page of a type or trait shows.
    fn page(&self, item: &'p Value) -> Page<'p> {
        let (kind, inner) = inner(item);
        let mut page = Page {
            item,
            methods: vec![],
            fields: vec![],
            associated: vec![],
            is_error: false,
            text: examples(docs(item)),
        };
        let is_method = |item: &&Value| item["inner"].get("function").is_some();
        if kind == "trait" {
            page.methods.extend(self.items(&inner["items"]).filter(is_method));
        }
        for part in self.items(&inner["impls"]) {
            let part_inner = &part["inner"]["impl"];
            page.text += &examples(docs(part));
            let own = self.items(&part_inner["items"]);
            match part_inner["trait"]["path"].as_str() {
                None => page.methods.extend(own.filter(is_method)),
                Some(path) => {
                    page.is_error |= path.ends_with("Error");
                    page.associated
                        .extend(own.filter(|item| item["inner"]["assoc_type"].is_object()));
                }
            }
        }
        page.methods.retain(|method| method["visibility"] == "public" || kind == "trait");
        page.fields.extend(self.items(&inner["kind"]["plain"]["fields"]));
        let texts = page.methods.iter().map(|method| examples(docs(method)));
        page.text = texts.fold(page.text, |all, text| all + &text);
        page
    }
}

/// A type or a trait.
struct Page<'p> {
    item: &'p Value,
    methods: Vec<&'p Value>,
    fields: Vec<&'p Value>,
    associated: Vec<&'p Value>,
    is_error: bool,
    /// All examples of the page.
    text: String,
}

impl<'p> Page<'p> {
    fn id(&self) -> u64 {
        self.item["id"].as_u64().unwrap_or_default()
    }

    fn has_example(&self) -> bool {
        !self.text.is_empty() || has_example(self.item)
    }

    /// Adds the types that the page's examples show.
    fn show(&self, shown: &mut BTreeSet<u64>) {
        if self.has_example() {
            self.associated.iter().for_each(|item| types_in(&item["inner"], shown));
        }
        for method in self.methods.iter().filter(|method| self.shows(method)) {
            types_in(&method["inner"]["function"]["sig"]["output"], shown);
        }
    }

    fn shows(&self, method: &Value) -> bool {
        let name = method["name"].as_str().unwrap_or_default();
        let is_word = |c: char| !c.is_alphanumeric() && c != '_';
        has_example(method) || self.text.split(is_word).any(|word| word == name)
    }

    fn waits_without_example(&self) -> impl Iterator<Item = &'p Value> {
        self.methods.iter().filter(|method| may_wait(docs(method)) && !self.shows(method)).copied()
    }
}

fn inner(item: &Value) -> (&str, &Value) {
    let inner = item["inner"].as_object().and_then(|inner| inner.iter().next());
    inner.map_or(("", &Value::Null), |(kind, inner)| (kind, inner))
}

fn docs(item: &Value) -> &str {
    item["docs"].as_str().unwrap_or_default()
}

fn place(item: &Value) -> String {
    let (file, line) = (item["span"]["filename"].as_str(), &item["span"]["begin"][0]);
    format!("{}:{line}: {} has no example", file.unwrap_or_default(), item["name"])
}

fn has_example(item: &Value) -> bool {
    let words = docs(item).split_whitespace().collect::<Vec<_>>().join(" ");
    let says_where = ["for an example", "# Examples See ["];
    !examples(docs(item)).is_empty() || says_where.iter().any(|place| words.contains(place))
}

/// Returns the programs in a text.
fn examples(docs: &str) -> String {
    let parts = docs.split("```").skip(1).step_by(2);
    let is_program = |part: &&str| {
        let language = part.lines().next().unwrap_or_default();
        !["text", "sh", "toml", "json"].iter().any(|other| language.starts_with(other))
    };
    parts.filter(is_program).collect()
}

fn may_wait(docs: &str) -> bool {
    let section = docs.split("# Cancellation").nth(1).map(|text| text.split("\n#").next());
    let denials = ["does not wait", "not a cancellation point"];
    section.flatten().is_some_and(|text| !denials.iter().any(|denial| text.contains(denial)))
}

/// Adds the ids of the types that a type names.
fn types_in(value: &Value, found: &mut BTreeSet<u64>) {
    match value {
        Value::Object(map) => {
            if let Some(id) = map.get("resolved_path").and_then(|path| path["id"].as_u64()) {
                found.insert(id);
            }
            map.values().for_each(|value| types_in(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| types_in(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{examples, may_wait, without_example};

    fn function(id: u64, name: &str, docs: &str, output: &Value) -> Value {
        json!({ "id": id, "crate_id": 0, "name": name, "docs": docs, "visibility": "public",
            "span": { "filename": "lib.rs", "begin": [id, 1] },
            "inner": { "function": { "sig": { "output": output } } } })
    }

    fn item(id: u64, name: &str, docs: &str, inner: Value) -> Value {
        let mut item = function(id, name, docs, &Value::Null);
        item["inner"] = inner;
        item
    }

    /// A crate with a free function, which may have an example, and a type with a method that waits.
    fn crate_of(function_docs: &str, type_docs: &str) -> Vec<String> {
        let returned = json!({ "resolved_path": { "id": 2 } });
        let waits = "Waits.\n\n# Cancellation\nThis is a cancellation point.";
        without_example(&json!({ "root": 0, "index": {
            "0": item(0, "lib", "", json!({ "module": { "items": [1, 2] } })),
            "1": function(1, "make", function_docs, &returned),
            "2": item(2, "Made", type_docs, json!({ "struct": { "impls": [3] } })),
            "3": item(3, "", "", json!({ "impl": { "items": [4], "trait": null } })),
            "4": function(4, "wait", waits, &Value::Null),
        } }))
    }

    #[test]
    fn items_without_an_example_are_found() {
        let line = |number, name| format!("lib.rs:{number}: \"{name}\" has no example");
        let [make, made, wait] = &[line(1, "make"), line(2, "Made"), line(4, "wait")];
        let is = |found: Vec<String>, expected: &[&String]| {
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        };
        is(crate_of("", ""), &[make, made, wait]);
        // The function's example shows the type that it returns.
        is(crate_of("```\nmake()\n```", ""), &[wait]);
        is(crate_of("See [`Made`] for an\nexample.", ""), &[wait]);
        // The type's example calls the method.
        is(crate_of("", "```\nmade.wait()\n```"), &[make]);
        assert_eq!(crate_of("```text\n|\n```", "```\nmade.wait()\n```").len(), 1);
    }

    #[test]
    fn programs_in_a_text_are_found() {
        assert_eq!(
            examples("a\n```\nb\n```\nc\n```text\nd\n```\n```no_run\ne\n```"),
            "\nb\nno_run\ne\n"
        );
    }

    #[test]
    fn what_may_wait_says_so() {
        assert!(may_wait("# Cancellation\nBehaves like `recv`."));
        assert!(!may_wait("# Cancellation\nThis call does not wait."));
        assert!(!may_wait("# Errors\nNone.\n# Cancellation\nThis is not a cancellation point."));
        assert!(!may_wait("Returns."));
    }
}
