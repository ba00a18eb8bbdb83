//! The versions of the peers.

use std::collections::BTreeMap;

use super::header::output;

/// The lock file that this program was built with.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// The modules of the peers in Go of the topic `fleet`.
const GO_MODULES: &str = include_str!("../../fleet/go/go.mod");

/// Dependencies of this package that are not peers.
const OWN: &[&str] = &["ecru", "httparse", "lexopt", "rustix", "serde", "serde_json"];

/// Returns the version of every peer that this package depends on, and of the programs that rows
/// run.
pub(super) fn versions() -> BTreeMap<String, String> {
    let mut versions = locked(LOCK, env!("CARGO_PKG_NAME"));
    let of_fleet = locked(LOCK, "ecru-bench-fleet");
    versions.extend(of_fleet.into_iter().filter(|(name, _)| name == "async-nats"));
    let of_web = locked(LOCK, "ecru-bench-web");
    let web = ["axum", "hyper", "tokio-rustls"];
    versions.extend(of_web.into_iter().filter(|(name, _)| web.contains(&name.as_str())));
    versions.extend(required(GO_MODULES));
    versions.extend(crate::fleet::server_versions());
    versions.insert("go".into(), output("go", &["env", "GOVERSION"]));
    versions.insert("jdk".into(), crate::jvm::version().unwrap_or_else(|| "none".into()));
    versions.insert("wrk".into(), wrk());
    versions
}

/// Returns wrk's version, which it prints with its help text and exit status 1.
fn wrk() -> String {
    let said = output("wrk", &["--version"]);
    said.split_whitespace().nth(1).map_or_else(|| "none".into(), str::to_owned)
}

/// Returns the last parts of the names of the modules that a `go.mod` asks for, with their versions.
fn required(modules: &str) -> BTreeMap<String, String> {
    let direct = modules.lines().filter(|line| !line.ends_with("// indirect"));
    let version = |line: &str| {
        let (module, version) = line.strip_prefix('\t')?.split_once(' ')?;
        Some((module.rsplit('/').next()?.to_owned(), version.to_owned()))
    };
    direct.filter_map(version).filter(|(name, _)| ["asynq", "river"].contains(&&**name)).collect()
}

/// Returns the dependencies of one package of a lock file with their versions.
fn locked(lock: &str, package: &str) -> BTreeMap<String, String> {
    let packages: Vec<_> = lock.split("[[package]]").skip(1).collect();
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
        Some(line.strip_suffix('"')?.to_owned())
    };
    let Some(own) = packages.iter().find(|text| value(text, "name").as_deref() == Some(package))
    else {
        return BTreeMap::new();
    };
    let dependencies =
        own.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    let version = |dependency: &str| {
        // The entry is a name alone if there is one version of it, otherwise the name and the
        // version.
        if let Some((name, version)) = dependency.split_once(' ') {
            return Some((name.to_owned(), version.to_owned()));
        }
        let found =
            packages.iter().find(|text| value(text, "name").as_deref() == Some(dependency))?;
        Some((dependency.to_owned(), value(found, "version")?))
    };
    dependencies.filter_map(version).filter(|(name, _)| !OWN.contains(&&**name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stands_at_the_package_or_beside_its_name() {
        let lock = "[[package]]\nname = \"bench\"\nversion = \"0.0.0\"\ndependencies = [\n \
                    \"ecru\",\n \"kanal\",\n \"syn 3.0.9\",\n]\n\n[[package]]\nname = \"kanal\"\n\
                    version = \"0.1.1\"\n\n[[package]]\nname = \"syn\"\nversion = \"2.0.0\"\n";
        let versions = locked(lock, "bench");
        let shown: Vec<_> = versions.iter().map(|(name, version)| (&**name, &**version)).collect();
        assert_eq!(shown, [("kanal", "0.1.1"), ("syn", "3.0.9")]);
        assert!(locked(lock, "absent").is_empty());
    }

    #[test]
    fn modules_of_go_have_their_versions_in_go_mod() {
        let modules = required(GO_MODULES);
        let names: Vec<_> = modules.keys().map(String::as_str).collect();
        assert_eq!(names, ["asynq", "river"]);
        assert!(modules.values().all(|version| version.starts_with('v')), "{modules:?}");
        assert!(required("require (\n\texample.org/asynq v1.0.0 // indirect\n)\n").is_empty());
    }

    #[test]
    fn the_peers_of_this_program_are_found() {
        let versions = locked(LOCK, env!("CARGO_PKG_NAME"));
        assert!(["tokio", "kanal", "monoio"].iter().all(|peer| versions.contains_key(*peer)));
    }
}
