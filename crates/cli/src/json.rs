//! A dump as it comes from the program: the fields of `TaskTree::to_json` that are shown.

use serde_json::Value;

use crate::Failure;

/// One look at the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) tasks: Vec<Task>,
    pub(crate) cycles: Vec<Vec<u64>>,
    /// Descriptions of the workers that did not answer.
    pub(crate) busy: Vec<String>,
    pub(crate) left_out: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) spawned_at: String,
    pub(crate) worker: Option<u64>,
    pub(crate) state: String,
    pub(crate) parent: Option<u64>,
    pub(crate) scope: String,
    pub(crate) has_children: bool,
    pub(crate) wait: Option<Wait>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Wait {
    /// What is waited for, with its object.
    pub(crate) what: String,
    pub(crate) at: String,
    pub(crate) lasted_ms: u64,
}

impl Tree {
    pub(crate) fn parse(text: &str) -> Result<Tree, Failure> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Failure::Answer(format!("the answer is not JSON: {error}")))?;
        if value["version"] != 1 {
            let version = &value["version"];
            let text =
                format!("the program's dumps have version {version}, and this command reads 1");
            return Err(Failure::Answer(text));
        }
        let ids = |cycle: &Value| list(cycle).filter_map(Value::as_u64).collect();
        Ok(Tree {
            tasks: list(&value["tasks"]).map(task).collect(),
            cycles: list(&value["cycles"]).map(ids).collect(),
            busy: list(&value["busy_workers"]).map(busy).collect(),
            left_out: value["left_out"].as_u64().unwrap_or(0),
        })
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn busy(value: &Value) -> String {
    let (worker, task) = (&value["worker"], &value["task"]);
    let advice = value["advice"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
    match task["spawned_at"].as_str() {
        Some(at) => {
            let name = task["name"].as_str().map(|name| format!(" '{}'", name.escape_debug()));
            let name = name.unwrap_or_default();
            format!("worker {worker} does not switch: it runs task{name} spawned at {at}{advice}")
        }
        None => format!("worker {worker} does not switch{advice}"),
    }
}

fn task(value: &Value) -> Task {
    Task {
        id: value["id"].as_u64().unwrap_or(0),
        name: if value["root"] == true {
            String::from("root")
        } else {
            text(&value["name"]).escape_debug().to_string()
        },
        spawned_at: text(&value["spawned_at"]),
        worker: value["worker"].as_u64(),
        state: text(&value["state"]),
        parent: value["parent"].as_u64(),
        scope: text(&value["scope_opened_at"]),
        has_children: list(&value["children"]).next().is_some(),
        wait: value["waits_on"].is_object().then(|| wait(&value["waits_on"])),
    }
}

fn wait(value: &Value) -> Wait {
    let mut what = text(&value["what"]);
    let mut add = |part: String| {
        what.push(' ');
        what.push_str(&part);
    };
    if let Some(source) = value["source"].as_str() {
        add(format!("from {source}"));
    }
    if let Some(task) = value["task"].as_u64() {
        add(format!("task #{task}"));
    }
    if let Some(fd) = value["fd"].as_i64() {
        add(format!("fd {fd}"));
    }
    if let Some(name) = value["fd_name"].as_str() {
        add(format!("({name})"));
    }
    if let Some(peer) = value["peer"].as_str() {
        add(format!("peer {peer}"));
    }
    if let Some(object) = value["object"].as_str() {
        add(object.to_owned());
    }
    if let Some(left) = value["tasks_left"].as_u64() {
        add(format!("({left} left)"));
    }
    if let Some(left) = value["left_ms"].as_u64() {
        add(format!("({} left)", seconds(left)));
    }
    Wait { what, at: text(&value["at"]), lasted_ms: value["lasted_ms"].as_u64().unwrap_or(0) }
}

/// Returns a time as text.
pub(crate) fn seconds(milliseconds: u64) -> String {
    match milliseconds {
        0..60_000 => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        60_000..3_600_000 => {
            format!("{} min {} s", milliseconds / 60_000, milliseconds / 1000 % 60)
        }
        _ => format!("{} h {} min", milliseconds / 3_600_000, milliseconds / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tree, seconds};

    #[test]
    fn trees_are_read() {
        let tree = Tree::parse(
            r#"{"version":1,"tasks":[{"id":3,"name":"a","spawned_at":"x.rs:1:2","worker":0,
            "state":"waiting","waits_on":{"what":"a lock","at":"x.rs:3:4","object":"('o', 0x1)",
            "lasted_ms":1234,"fd":null},"parent":1,"children":[4],"new":7}],
            "cycles":[[3,4]],"busy_workers":[{"worker":1,"task":null}],"left_out":9}"#,
        )
        .unwrap();
        let task = &tree.tasks[0];
        assert_eq!((task.id, task.name.as_str(), task.parent), (3, "a", Some(1)));
        assert!(task.has_children);
        let wait = task.wait.as_ref().unwrap();
        assert_eq!((wait.what.as_str(), wait.lasted_ms), ("a lock ('o', 0x1)", 1234));
        assert_eq!(tree.cycles, [[3, 4]]);
        assert_eq!(tree.busy, ["worker 1 does not switch"]);
        assert_eq!(tree.left_out, 9);
        assert!(Tree::parse("{}").is_err() && Tree::parse("[").is_err());
    }

    #[test]
    fn times_are_short() {
        assert_eq!(seconds(1_290), "1.2 s");
        assert_eq!(seconds(61_000), "1 min 1 s");
        assert_eq!(seconds(7_260_000), "2 h 1 min");
    }
}
