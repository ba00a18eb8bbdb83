//! The table of features names tests that exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[test]
fn each_feature_names_a_test_that_exists() {
    let (root, table) = (Path::new(env!("CARGO_MANIFEST_DIR")), include_str!("../../FEATURES.md"));
    if !root.join("tests").is_dir() {
        // The package's archive has none.
        return;
    }
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut rows = 0;
    for row in table.lines().filter(|line| line.starts_with('|')).skip(2) {
        let own = row.split('|').nth(2).unwrap();
        let links: Vec<_> = own.split('[').skip(1).collect();
        assert_eq!(own.trim().starts_with("yes"), !links.is_empty(), "{row}");
        for link in links {
            let (id, rest) = link.split_once("](").unwrap();
            let file = rest.split(')').next().unwrap();
            let text = texts.entry(file).or_insert_with(|| {
                fs::read_to_string(root.join(file))
                    .unwrap_or_else(|error| panic!("{file}: {error}"))
            });
            assert!(text.contains(&format!("fn {id}_")), "{file} has no {id}");
        }
        rows += 1;
    }
    assert!(rows > 30, "{rows}");
}
