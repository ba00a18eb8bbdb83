//! Empty. This package exists for its dev-dependency: it is a default member of the workspace, so
//! `cargo test` builds ecru with the feature `sim`, and runs the tests that need it.
