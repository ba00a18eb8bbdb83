//! ecru's side: rustdoc's JSON output for the crate. The format is unstable, and is that of the
//! compiler that `rust-toolchain` or CI names.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::rustdoc;

/// The crate as rustdoc describes it.
pub(super) struct Ours {
    index: Value,
    root: String,
}

/// Returns the words in a documentation text that are only for implementers.
fn for_implementers<'d>(docs: &'d str, ids: &BTreeSet<&str>) -> impl Iterator<Item = String> + 'd {
    let words: Vec<_> = docs.split(|c: char| !c.is_alphanumeric()).collect();
    let layers = words
        .windows(2)
        .filter(|pair| pair[0].eq_ignore_ascii_case("layer") && pair[1].parse::<u32>().is_ok())
        .map(|pair| pair.join(" "))
        .collect::<Vec<_>>();
    let ids = words.iter().filter(|word| ids.contains(*word)).map(|word| (*word).to_owned());
    layers.into_iter().chain(ids.collect::<Vec<_>>())
}

/// The names that a type or a module has.
#[derive(Default)]
pub(super) struct Names {
    /// All names, with `impl Trait` for traits, and the methods of ecru's own traits.
    pub(super) all: BTreeSet<String>,
    /// The type's own methods.
    pub(super) inherent: BTreeSet<String>,
    /// Whether the name stands for std's type itself.
    pub(super) is_stds: bool,
}

impl Ours {
    pub(super) fn read(root: &Path) -> Result<Ours, String> {
        let text = std::fs::read_to_string(rustdoc::json(root, "ecru")?)
            .map_err(|error| error.to_string())?;
        let mut json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let root = json["root"].to_string();
        Ok(Ours { index: json["index"].take(), root })
    }

    /// Returns the public items whose documentation contains text for implementers, as
    /// `place: what`: the number of a layer, or the id of an invariant.
    pub(super) fn implementers_text(&self, ids: &BTreeSet<&str>) -> Vec<String> {
        let mut found = Vec::new();
        for item in self.index.as_object().into_iter().flat_map(|index| index.values()) {
            let (file, line) = (&item["span"]["filename"], &item["span"]["begin"][0]);
            let file = file.as_str().unwrap_or("?");
            // The page on soundness is for readers who want the arguments.
            if item["crate_id"] != 0 || item["name"] == "soundness" {
                continue;
            }
            let place = format!("{file}:{line}");
            // The safety section of an unsafe function may cite an invariant.
            let docs = item["docs"].as_str().unwrap_or_default();
            let docs = docs.split("# Safety").next().unwrap_or_default();
            found.extend(for_implementers(docs, ids).map(|word| format!("{place}: {word}")));
        }
        found.sort();
        found
    }

    fn item(&self, id: &str) -> &Value {
        &self.index[id]
    }

    /// Returns the id of the item that a module offers under a name, or an inner `None` for an item
    /// of another crate.
    fn child(&self, module: &Value, name: &str) -> Option<Option<String>> {
        let items = module["inner"]["module"]["items"].as_array()?;
        for id in items {
            let item = self.item(&id.to_string());
            let used = &item["inner"]["use"];
            if used.is_object() {
                if used["is_glob"] == true {
                    let target = self.item(&used["id"].to_string());
                    if let Some(found) = self.child(target, name) {
                        return Some(found);
                    }
                } else if used["name"] == name {
                    let target = used["id"].to_string();
                    return Some((!self.item(&target).is_null()).then_some(target));
                }
            } else if item["name"] == name {
                return Some(Some(id.to_string()));
            }
        }
        None
    }

    fn find(&self, path: &str) -> Option<Option<&Value>> {
        let mut item = self.item(&self.root);
        for part in path.split("::") {
            match self.child(item, part)? {
                Some(id) => item = self.item(&id),
                None => return Some(None),
            }
        }
        Some(Some(item))
    }

    /// Returns the methods and traits of a type.
    pub(super) fn members(&self, path: &str) -> Option<Names> {
        let Some(item) = self.find(path)? else {
            return Some(Names { is_stds: true, ..Names::default() });
        };
        let mut names = Names::default();
        for id in item["inner"]["struct"]["impls"].as_array()? {
            let implementation = &self.item(&id.to_string())["inner"]["impl"];
            if implementation["is_synthetic"] == true || !implementation["blanket_impl"].is_null() {
                continue;
            }
            let methods = implementation["items"].as_array()?.iter();
            let methods = methods.filter_map(|id| self.item(&id.to_string())["name"].as_str());
            match implementation["trait"]["path"].as_str() {
                None => names.inherent.extend(methods.map(str::to_owned)),
                Some(implemented) => {
                    let last = implemented.rsplit("::").next().unwrap_or(implemented);
                    names.all.insert(format!("impl {last}"));
                    if last.ends_with("Ext") {
                        names.all.extend(methods.map(str::to_owned));
                    }
                }
            }
        }
        names.all.extend(names.inherent.iter().cloned());
        Some(names)
    }

    /// Returns the functions, types and traits of a module.
    pub(super) fn items(&self, path: &str) -> Option<Names> {
        let module = self.find(path)??;
        let mut names = Names::default();
        for id in module["inner"]["module"]["items"].as_array()? {
            let item = self.item(&id.to_string());
            let used = &item["inner"]["use"];
            let name = if used.is_object() { &used["name"] } else { &item["name"] };
            names.all.extend(name.as_str().map(str::to_owned));
        }
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::for_implementers;

    #[test]
    fn text_for_implementers_is_found() {
        let ids = ["S2", "C1"].into();
        let found = |docs| for_implementers(docs, &ids).collect::<Vec<_>>();
        assert_eq!(found("Layer 3: what a task is (S2)."), ["Layer 3", "S2"]);
        assert_eq!(found("A layer. Three of S22 and C10."), [""; 0]);
    }
}
