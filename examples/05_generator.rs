//! A recursive walk as an iterator: a generator suspends from any depth, and needs no runtime.

use ecru::coroutine::{Coroutine, CoroutineState, Yielder, generate};

struct Tree {
    word: &'static str,
    left: Option<Box<Tree>>,
    right: Option<Box<Tree>>,
}

fn insert(tree: &mut Option<Box<Tree>>, word: &'static str) {
    match tree {
        None => *tree = Some(Box::new(Tree { word, left: None, right: None })),
        Some(tree) if word < tree.word => insert(&mut tree.left, word),
        Some(tree) => insert(&mut tree.right, word),
    }
}

fn walk<'t>(tree: &'t Option<Box<Tree>>, depth: usize, yielder: &Yielder<(), (usize, &'t str)>) {
    let Some(tree) = tree else { return };
    walk(&tree.left, depth + 1, yielder);
    yielder.suspend((depth, tree.word));
    walk(&tree.right, depth + 1, yielder);
}

fn main() {
    let mut tree = None;
    for word in "the quick brown fox jumps over a lazy dog".split(' ') {
        insert(&mut tree, word);
    }
    // The walk borrows the tree, so it ends before `generate` returns. A `Generator` would own the
    // tree.
    let mut sorted = vec![];
    generate(
        |yielder| walk(&tree, 0, yielder),
        |words| {
            for (depth, word) in words {
                println!("{}{word}", "   ".repeat(depth));
                sorted.push(word);
            }
        },
    );
    assert!(sorted.is_sorted());
    assert_eq!(sorted.len(), 9);

    // A coroutine also takes values in. This one keeps the mean of all values passed to it.
    let mean = Coroutine::new(|yielder: &Yielder<f64, f64>, first: f64| -> f64 {
        let (mut sum, mut count) = (first, 1.0);
        loop {
            let next = yielder.suspend(sum / count);
            if next.is_nan() {
                return sum / count;
            }
            sum += next;
            count += 1.0;
        }
    });
    println!();
    for value in [3.0, 5.0, 10.0] {
        println!("{value:4}: the mean is now {:?}", mean.resume(value));
    }
    assert_eq!(mean.resume(f64::NAN), CoroutineState::Complete(6.0));
}
