//! Coroutines without a runtime: a walk over a tree, a parser that is fed piece by piece, and a
//! loop that is ticked by hand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ecru::coroutine::{
    Coroutine, CoroutineState, Executor, Generator, Stack, Yielder, remaining_stack,
};

fn main() -> std::io::Result<()> {
    walk_a_tree();
    parse_what_comes();
    tick_by_hand();
    locals();
    stack()
}

/// A tree, whose recursive walk yields its values one by one, from any depth.
enum Tree {
    Leaf(u32),
    Node(Vec<Tree>),
}

fn leaves(tree: &Tree, yielder: &Yielder<(), u32>) {
    match tree {
        Tree::Leaf(value) => yielder.suspend(*value),
        Tree::Node(children) => children.iter().for_each(|child| leaves(child, yielder)),
    }
}

fn walk_a_tree() {
    use Tree::{Leaf, Node};
    let left = Node(vec![Leaf(1), Node(vec![Node(vec![Leaf(2)]), Leaf(3)])]);
    let right = Node(vec![Node(vec![Leaf(1), Leaf(2)]), Leaf(3)]);
    // Each generator owns its tree, because the body of a `Generator` may outlive this function.
    let walk = |tree: Tree| Generator::new(move |yielder| leaves(&tree, yielder));
    let both: Vec<(u32, u32)> = walk(left).zip(walk(right)).collect();
    println!("two walks in step:    {both:?}");
    assert!(both.iter().all(|(a, b)| a == b), "different shapes, the same leaves");
}

/// Reads `length:bytes,` repeatedly, as if all its input were there. If input is missing, the
/// parser suspends until it arrives.
fn netstrings(yielder: &Yielder<u8, Option<String>>, first: u8) -> usize {
    let mut byte = first;
    let mut count = 0;
    loop {
        let mut length = 0;
        while byte != b':' {
            if byte == b'\n' {
                return count;
            }
            length = 10 * length + usize::from(byte - b'0');
            byte = yielder.suspend(None);
        }
        let text: Vec<u8> = (0..length).map(|_| yielder.suspend(None)).collect();
        assert_eq!(yielder.suspend(None), b',', "a netstring ends so");
        count += 1;
        byte = yielder.suspend(Some(String::from_utf8_lossy(&text).into_owned()));
    }
}

fn parse_what_comes() {
    let parser = Coroutine::new(netstrings);
    let mut words = vec![];
    for packet in ["5:hel", "lo,", "0:,12:", "coroutines..", ",\n"] {
        for byte in packet.bytes() {
            match parser.resume(byte) {
                CoroutineState::Yielded(word) => words.extend(word),
                CoroutineState::Complete(count) => assert_eq!(count, words.len()),
            }
        }
    }
    println!("parsed byte by byte:  {words:?}");
    assert_eq!(words, ["hello", "", "coroutines.."]);
}

/// Two coroutines take turns in a loop that belongs to the program. The work that they queue runs
/// in the next tick.
fn tick_by_hand() {
    fn step(executor: &Rc<Executor>, coroutine: Rc<Coroutine<(), (), ()>>) {
        let again = Rc::clone(executor);
        executor.run_soon(move || {
            if coroutine.resume(()) == CoroutineState::Yielded(()) {
                step(&again, coroutine);
            }
        });
    }
    let (executor, log) = (Rc::new(Executor::new()), Rc::new(RefCell::new(String::new())));
    for (name, turns) in [('a', 3), ('b', 2)] {
        let log = Rc::clone(&log);
        let turn = move |yielder: &Yielder<(), ()>, ()| {
            for _ in 0..turns {
                log.borrow_mut().push(name);
                yielder.suspend(());
            }
        };
        step(&executor, Rc::new(Coroutine::new(turn)));
    }
    let mut ticks = 0;
    while executor.tick() {
        log.borrow_mut().push(' ');
        ticks += 1;
    }
    println!("in {ticks} ticks:           {}", log.borrow());
    assert_eq!(log.borrow().trim_end(), "ab ab a");
}

/// The variables of a coroutine are on its own stack, and its functions access them like any
/// locals.
fn locals() {
    struct Lines(Cell<u32>);

    fn write(lines: &Lines, yielder: &Yielder<(), String>, text: &str) {
        lines.0.set(lines.0.get() + 1);
        yielder.suspend(format!("{}{text}", lines.0.get()));
    }
    let page = |texts: &'static [&'static str]| {
        Generator::new(move |yielder| {
            let lines = Lines(Cell::new(0));
            texts.iter().for_each(|text| write(&lines, yielder, text));
        })
    };
    let (left, right) = (page(&["a", "b", "c"]), page(&["x", "y", "z"]));
    let both: Vec<String> = left.zip(right).map(|(l, r)| l + &r).collect();
    println!("each counts its own:  {both:?}");
    assert_eq!(both, ["1a1x", "2b2y", "3c3z"]);
}

/// A stack of a chosen size, how much of it is left at some depth, and the same stack again for the
/// next coroutine.
fn stack() -> std::io::Result<()> {
    fn dig(depth: u32) -> usize {
        if depth == 0 { remaining_stack() } else { std::hint::black_box(dig(depth - 1)) }
    }
    let mut stack = Stack::new(32 << 10)?;
    let mut left = vec![];
    for depth in [0, 10, 50] {
        let coroutine = Coroutine::with_stack(stack, move |_: &Yielder<(), ()>, ()| dig(depth));
        let CoroutineState::Complete(bytes) = coroutine.resume(()) else { unreachable!() };
        left.push(bytes);
        stack = coroutine.into_stack();
    }
    println!("bytes of stack left:  {left:?} of {}, at depths 0, 10 and 50", stack.size());
    assert!(left.is_sorted_by(|a, b| a > b));
    Ok(())
}
