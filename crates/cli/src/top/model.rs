//! What `ecru top` shows, and how the keys change it.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use ratatui::crossterm::event::KeyCode;

use crate::json::{Task, Tree};

/// From this number on, tasks of one scope that look the same are shown in one row.
const ALIKE_MIN: usize = 4;

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Each task below the one whose scope it belongs to.
    Tree,
    /// Those that have waited longest first.
    Longest,
    /// By the place of the spawn.
    Place,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Tree => "tree",
            Order::Longest => "longest wait",
            Order::Place => "spawn place",
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The place of the task in the tree.
    pub(super) task: usize,
    /// How many tasks the row stands for.
    pub(super) count: usize,
    pub(super) depth: usize,
    /// Whether the tasks below it are hidden.
    pub(super) is_closed: bool,
    pub(super) is_in_cycle: bool,
}

/// How many tasks began and ended in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) begun: f64,
    pub(super) ended: f64,
}

pub(super) struct Model {
    pub(super) title: String,
    pub(super) tree: Tree,
    pub(super) rows: Vec<Row>,
    pub(super) selected: usize,
    pub(super) order: Order,
    pub(super) folds: bool,
    pub(super) filter: String,
    /// Whether the keys go to the filter.
    pub(super) types_filter: bool,
    pub(super) rates: Option<Rates>,
    pub(super) error: Option<String>,
    /// The stack of a task, as text.
    pub(super) stack: Option<String>,
    wants_stack: bool,
    closed: HashSet<u64>,
    seen_at: Option<Instant>,
}

impl Model {
    pub(super) fn new(title: String) -> Model {
        Model {
            title,
            tree: Tree::default(),
            rows: Vec::new(),
            selected: 0,
            order: Order::Tree,
            folds: true,
            filter: String::new(),
            types_filter: false,
            rates: None,
            error: None,
            stack: None,
            wants_stack: false,
            closed: HashSet::new(),
            seen_at: None,
        }
    }

    /// Shows a newer tree.
    pub(super) fn update(&mut self, tree: Tree, now: Instant) {
        let selected = self.selected_task().map(|task| task.id);
        if let Some(before) = self.seen_at {
            let ids = |tree: &Tree| tree.tasks.iter().map(|task| task.id).collect::<HashSet<_>>();
            let (old, new) = (ids(&self.tree), ids(&tree));
            let seconds = now.saturating_duration_since(before).as_secs_f64().max(0.001);
            let count = |of: &HashSet<u64>, without: &HashSet<u64>| {
                of.difference(without).count() as f64 / seconds
            };
            self.rates = Some(Rates { begun: count(&new, &old), ended: count(&old, &new) });
        }
        self.seen_at = Some(now);
        self.tree = tree;
        self.error = None;
        self.arrange();
        if let Some(id) = selected
            && let Some(place) = self.rows.iter().position(|row| self.tree.tasks[row.task].id == id)
        {
            self.selected = place;
        }
    }

    pub(super) fn fail(&mut self, text: String) {
        self.error = Some(text);
    }

    pub(super) fn selected_task(&self) -> Option<&Task> {
        self.rows.get(self.selected).map(|row| &self.tree.tasks[row.task])
    }

    /// Returns the task whose stack is to be asked for, once.
    pub(super) fn wants_stack(&mut self) -> Option<u64> {
        std::mem::take(&mut self.wants_stack).then(|| self.selected_task().map(|task| task.id))?
    }

    pub(super) fn set_stack(&mut self, text: String) {
        self.stack = Some(text);
    }

    /// Does what a key stands for. Returns whether to end.
    pub(super) fn press(&mut self, key: KeyCode) -> bool {
        if self.types_filter {
            match key {
                KeyCode::Enter => self.types_filter = false,
                KeyCode::Esc => {
                    self.types_filter = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => {}
            }
            self.arrange();
            return false;
        }
        let last = self.rows.len().saturating_sub(1);
        match key {
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.stack.take().is_none() => return true,
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = (self.selected + 10).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Tree => Order::Longest,
                    Order::Longest => Order::Place,
                    Order::Place => Order::Tree,
                };
                self.selected = 0;
            }
            KeyCode::Char('f') => self.folds = !self.folds,
            KeyCode::Char('/') => self.types_filter = true,
            KeyCode::Char(' ') => {
                if let Some(id) = self.selected_task().map(|task| task.id)
                    && !self.closed.remove(&id)
                {
                    self.closed.insert(id);
                }
            }
            KeyCode::Enter => self.wants_stack = true,
            _ => {}
        }
        self.arrange();
        false
    }

    /// Makes the rows of the present tree.
    fn arrange(&mut self) {
        let tree = &self.tree;
        let in_cycles: HashSet<u64> = tree.cycles.iter().flatten().copied().collect();
        let mut depths: HashMap<u64, usize> = HashMap::new();
        let mut hidden: HashSet<u64> = HashSet::new();
        let mut rows: Vec<Row> = Vec::new();
        let mut alike: HashMap<String, usize> = HashMap::new();
        let is_tree = self.order == Order::Tree;
        let counts = self.folds.then(|| counts(tree, is_tree));
        for (place, task) in tree.tasks.iter().enumerate() {
            let depth = task.parent.map_or(0, |parent| depths.get(&parent).map_or(0, |d| d + 1));
            depths.insert(task.id, depth);
            let is_below_hidden = task.parent.is_some_and(|parent| hidden.contains(&parent));
            let is_closed = self.closed.contains(&task.id) && task.has_children;
            if is_below_hidden || is_closed {
                hidden.insert(task.id);
            }
            if (is_tree && is_below_hidden) || !fits(task, &self.filter) {
                continue;
            }
            let key = key(task, is_tree);
            let is_many = counts.as_ref().and_then(|counts| counts.get(&key));
            if !task.has_children && is_many.is_some_and(|count| *count >= ALIKE_MIN) {
                if let Some(&row) = alike.get(&key) {
                    rows[row].count += 1;
                    continue;
                }
                alike.insert(key, rows.len());
            }
            rows.push(Row {
                task: place,
                count: 1,
                depth: if is_tree { depth } else { 0 },
                is_closed,
                is_in_cycle: in_cycles.contains(&task.id),
            });
        }
        let lasted =
            |row: &Row| tree.tasks[row.task].wait.as_ref().map_or(0, |wait| wait.lasted_ms);
        match self.order {
            Order::Tree => {}
            Order::Longest => rows.sort_by_key(|row| std::cmp::Reverse(lasted(row))),
            Order::Place => {
                rows.sort_by(|a, b| {
                    tree.tasks[a.task].spawned_at.cmp(&tree.tasks[b.task].spawned_at)
                });
            }
        }
        self.rows = rows;
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
    }
}

/// Returns how many leaves of the tree have each key.
fn counts(tree: &Tree, is_tree: bool) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for task in tree.tasks.iter().filter(|task| !task.has_children) {
        *counts.entry(key(task, is_tree)).or_insert(0) += 1;
    }
    counts
}

/// Returns a text that is equal for tasks that can share a row.
fn key(task: &Task, is_tree: bool) -> String {
    let name: String = task.name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    let parent = if is_tree { task.parent } else { None };
    // The times differ, and stand in brackets at the end.
    let wait = task.wait.as_ref();
    let what = wait.map(|wait| wait.what.split(" left)").next().unwrap_or_default());
    let what = what.map(|what| what.trim_end_matches(|letter: char| !letter.is_alphabetic()));
    let at = wait.map(|wait| &wait.at);
    format!("{parent:?} {} {name} {} {what:?} {at:?}", task.spawned_at, task.state)
}

/// Returns whether a task is shown with this filter.
fn fits(task: &Task, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&filter);
    filter.is_empty()
        || has(&task.name)
        || has(&task.spawned_at)
        || has(&task.state)
        || has(&format!("#{}", task.id))
        || task.wait.as_ref().is_some_and(|wait| has(&wait.what) || has(&wait.at))
}

#[cfg(test)]
mod tests {
    use super::{Model, Order};
    use crate::json::{Task, Tree, Wait};
    use ratatui::crossterm::event::KeyCode;
    use std::time::{Duration, Instant};

    fn task(id: u64, parent: Option<u64>, what: &str, lasted_ms: u64) -> Task {
        let wait = Wait { what: what.into(), at: String::from("a.rs:9:9"), lasted_ms };
        Task {
            id,
            parent,
            spawned_at: format!("a.rs:{}:1", id.min(4)),
            state: String::from("waiting"),
            has_children: id == 1,
            wait: Some(wait),
            ..Task::default()
        }
    }

    fn model() -> Model {
        let mut tasks = vec![task(1, None, "its tasks", 9), task(2, Some(1), "a lock", 500)];
        tasks.extend((4..14).map(|id| task(id, Some(1), "time to pass (3.1 s left)", id)));
        let tree = Tree { tasks, cycles: vec![vec![1, 2]], ..Tree::default() };
        let mut model = Model::new(String::from("test"));
        model.update(tree, Instant::now());
        model
    }

    fn ids(model: &Model) -> Vec<(u64, usize)> {
        model.rows.iter().map(|row| (model.tree.tasks[row.task].id, row.count)).collect()
    }

    #[test]
    fn equal_tasks_share_a_row_unless_they_are_unfolded() {
        let mut model = model();
        assert_eq!(ids(&model), [(1, 1), (2, 1), (4, 10)]);
        assert_eq!(model.rows.iter().map(|row| row.depth).collect::<Vec<_>>(), [0, 1, 1]);
        assert!(model.rows[1].is_in_cycle && !model.rows[2].is_in_cycle);
        model.press(KeyCode::Char('f'));
        assert_eq!(model.rows.len(), 12);
    }

    #[test]
    fn keys_sort_filter_close_and_end() {
        let mut model = model();
        model.press(KeyCode::Char('s'));
        assert_eq!(model.order, Order::Longest);
        assert_eq!(ids(&model)[0], (2, 1));
        model.press(KeyCode::Char('s'));
        model.press(KeyCode::Char('s'));
        for key in ['/', 'l', 'O', 'c'] {
            model.press(KeyCode::Char(key));
        }
        assert_eq!(ids(&model), [(2, 1)]);
        assert!(!model.press(KeyCode::Char('q')), "it belongs to the filter");
        assert!(ids(&model).is_empty());
        model.press(KeyCode::Esc);
        assert_eq!(model.rows.len(), 3);
        model.press(KeyCode::Home);
        model.press(KeyCode::Char(' '));
        assert_eq!(ids(&model), [(1, 1)]);
        assert!(model.rows[0].is_closed);
        assert_eq!(model.wants_stack(), None);
        model.press(KeyCode::Enter);
        assert_eq!((model.wants_stack(), model.wants_stack()), (Some(1), None));
        assert!(model.press(KeyCode::Char('q')));
    }

    #[test]
    fn rates_come_from_two_looks_and_the_selection_stays() {
        let mut model = model();
        assert!(model.rates.is_none());
        model.press(KeyCode::Down);
        let mut tree = model.tree.clone();
        tree.tasks.remove(0);
        tree.tasks.extend((20..24).map(|id| task(id, None, "new", 0)));
        let later = Instant::now() + Duration::from_secs(2);
        model.update(tree, later);
        assert_eq!(model.selected_task().unwrap().id, 2);
        let rates = model.rates.unwrap();
        assert!((1.8..=2.2).contains(&rates.begun) && (0.4..=0.6).contains(&rates.ended));
    }
}
