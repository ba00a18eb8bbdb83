//! The screen of `ecru top`.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState, Wrap};

use super::model::{Model, Row as Shown};
use crate::json::{Task, seconds};

/// The greatest number of lines about tasks that wait for each other, and busy workers.
const ALERTS_MAX: usize = 6;

pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let alerts = alerts(model);
    let detail: u16 = if model.stack.is_some() { 16 } else { 6 };
    let height = |lines: usize| u16::try_from(lines).unwrap_or(u16::MAX);
    let [head, alert, table, bottom, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(height(alerts.len())),
        Constraint::Min(3),
        Constraint::Length(detail),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(summary(model)), head);
    let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(alerts.join("\n")).style(red), alert);
    tasks(frame, model, table);
    frame.render_widget(details(model), bottom);
    frame.render_widget(Paragraph::new(help(model)), keys);
}

fn summary(model: &Model) -> Text<'static> {
    let tree = &model.tree;
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for task in &tree.tasks {
        *states.entry(&task.state).or_insert(0) += 1;
    }
    let states: Vec<String> =
        states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let mut counts = format!("{} tasks: {}", tree.tasks.len(), states.join(", "));
    if tree.tasks.is_empty() && tree.busy.is_empty() {
        counts = String::from("no run is going on");
    }
    if tree.left_out > 0 {
        counts.push_str(&format!("; {} more are not listed", tree.left_out));
    }
    if let Some(rates) = model.rates {
        counts.push_str(&format!("; {:.0} begun/s, {:.0} ended/s", rates.begun, rates.ended));
    }
    let mut title = format!("ecru top {}   sorted by {}", model.title, model.order.name());
    if !model.filter.is_empty() || model.types_filter {
        title.push_str(&format!("   filter: {}", model.filter));
    }
    if let Some(error) = &model.error {
        title.push_str(&format!("   {error}"));
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Text::from(vec![Line::styled(title, bold), Line::raw(counts)])
}

fn alerts(model: &Model) -> Vec<String> {
    let name = |id: &u64| {
        let task = model.tree.tasks.iter().find(|task| task.id == *id);
        task.map_or_else(|| format!("#{id}"), label)
    };
    let cycle = |cycle: &Vec<u64>| {
        let tasks: Vec<String> = cycle.iter().map(name).collect();
        match tasks.len() {
            1 => format!("waits for itself: {}", tasks[0]),
            _ => format!("wait for each other: {} -> {}", tasks.join(" -> "), tasks[0]),
        }
    };
    let cycles = model.tree.cycles.iter().map(cycle);
    cycles.chain(model.tree.busy.iter().cloned()).take(ALERTS_MAX).collect()
}

fn label(task: &Task) -> String {
    match task.name.as_str() {
        "" => format!("#{}", task.id),
        name => format!("#{} {name}", task.id),
    }
}

/// Returns the last part of a place: `net/main.rs:3`, without its column.
fn short(at: &str) -> String {
    let place = at.rsplit_once(':').map_or(at, |(place, _)| place);
    let mut parts = place.rsplitn(3, '/');
    match (parts.next(), parts.next()) {
        (Some(file), Some(folder)) => format!("{folder}/{file}"),
        _ => place.to_owned(),
    }
}

fn tasks(frame: &mut Frame<'_>, model: &mut Model, area: Rect) {
    let row = |shown: &Shown| {
        let task = &model.tree.tasks[shown.task];
        let mark = if shown.is_closed { "+ " } else { "" };
        let many = if shown.count > 1 { format!(" x{}", shown.count) } else { String::new() };
        let wait = task.wait.as_ref();
        let style = match task.state.as_str() {
            _ if shown.is_in_cycle => Style::new().fg(Color::Red),
            "running" | "ready" => Style::new().fg(Color::Green),
            _ => Style::new(),
        };
        Row::new([
            format!("{}{mark}{}{many}", "  ".repeat(shown.depth), label(task)),
            task.worker.map_or_else(String::new, |worker| worker.to_string()),
            wait.map_or_else(String::new, |wait| seconds(wait.lasted_ms)),
            wait.map_or_else(|| task.state.clone(), |wait| wait.what.clone()),
            wait.map_or_else(String::new, |wait| short(&wait.at)),
        ])
        .style(style)
    };
    let widths = [
        Constraint::Percentage(24),
        Constraint::Length(6),
        Constraint::Length(10),
        Constraint::Percentage(40),
        Constraint::Min(20),
    ];
    let header = Row::new(["TASK", "WORKER", "FOR", "WAITS FOR", "AT"])
        .style(Style::new().add_modifier(Modifier::REVERSED));
    let table = Table::new(model.rows.iter().map(row), widths)
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(model.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn details(model: &Model) -> Paragraph<'static> {
    let mut lines = Vec::new();
    if let Some(stack) = &model.stack {
        lines.push(stack.clone());
    } else if let Some(task) = model.selected_task() {
        lines.push(format!("task {} spawned at {}", label(task), task.spawned_at));
        if !task.scope.is_empty() {
            lines.push(format!("in the scope opened at {}", task.scope));
        }
        if let Some(wait) = &task.wait {
            let verb = if wait.what.starts_with("to ") { "waits" } else { "waits for" };
            lines.push(format!("{verb} {}", wait.what));
            if !wait.at.is_empty() {
                lines.push(format!("at {}", wait.at));
            }
        }
    }
    Paragraph::new(lines.join("\n")).wrap(Wrap { trim: false }).block(Block::bordered())
}

fn help(model: &Model) -> String {
    if model.types_filter {
        return String::from("type a part of a name, a place or a wait   Enter keep   Esc clear");
    }
    String::from("q quit   s sort   f fold   / filter   Space close   Enter stack   Esc back")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn places_are_short() {
        assert_eq!(short("crates/cli/src/main.rs:12:5"), "src/main.rs:12");
        assert_eq!(short("main.rs:12:5"), "main.rs:12");
        assert_eq!(short(""), "");
    }
}
