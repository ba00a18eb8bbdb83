//! The command line.

use std::net::SocketAddr;
use task_server::stage::Stage;

pub(crate) const HELP: &str = "\
task-server <port> [seed] [clients=50] [messages=50]   (nothing at all: 8080 1 40 20)

  --stage STAGE   serial, client, task, cache or pipelined (the last one unless told otherwise)
  --serve         only the server, until Ctrl-C
  --load ADDRESS  only the clients, against a server elsewhere; the port is not used; with several
                  --load, the clients take turns
  --fleet URL     share the CPU tasks with all servers at a NATS server with JetStream, such as
                  nats://127.0.0.1:4222: at most 40 run at a time in all of them, and each answer is
                  computed once
  --pace FACTOR   sleeps last so many times as long: 0.01 for a quick look
";

/// The halves of the work that this process performs.
pub(crate) enum Role {
    Both,
    Serve,
    Load(Vec<SocketAddr>),
}

pub(crate) struct Arguments {
    pub(crate) role: Role,
    pub(crate) port: u16,
    pub(crate) seed: u64,
    pub(crate) clients: u64,
    pub(crate) messages: u64,
    pub(crate) stage: Stage,
    pub(crate) pace: f64,
    pub(crate) fleet: Option<String>,
}

impl Arguments {
    pub(crate) fn read() -> Result<Arguments, lexopt::Error> {
        use lexopt::prelude::{Long, Short, Value, ValueExt};
        let mut parser = lexopt::Parser::from_env();
        let (mut role, mut stage, mut pace) = (Role::Both, Stage::Pipelined, 1.0);
        let mut fleet = None;
        let mut numbers: Vec<u64> = vec![];
        while let Some(argument) = parser.next()? {
            match argument {
                Long("stage") => stage = parser.value()?.parse()?,
                Long("pace") => pace = parser.value()?.parse()?,
                Long("serve") => role = Role::Serve,
                Long("load") => {
                    let server = parser.value()?.parse()?;
                    match &mut role {
                        Role::Load(servers) => servers.push(server),
                        _ => role = Role::Load(vec![server]),
                    }
                }
                Long("fleet") => fleet = Some(parser.value()?.string()?),
                Long("help") | Short('h') => {
                    print!("{HELP}");
                    std::process::exit(0);
                }
                Value(value) if numbers.len() < 4 => numbers.push(value.parse()?),
                other => return Err(other.unexpected()),
            }
        }
        if !(0.0..=1000.0).contains(&pace) {
            return Err("a pace lies between 0 and 1000".into());
        }
        if fleet.is_some() && matches!(role, Role::Load(_)) {
            return Err("--fleet is for servers; leave it out with --load".into());
        }
        if fleet.is_some() && stage < Stage::Cache {
            return Err("--fleet computes each answer once; the stage is cache or pipelined".into());
        }
        let number = |place: usize, otherwise| numbers.get(place).copied().unwrap_or(otherwise);
        let usual = if numbers.is_empty() { [1, 40, 20] } else { [1, 50, 50] };
        Ok(Arguments {
            role,
            port: u16::try_from(number(0, 8080)).map_err(|_| "a port is below 65536")?,
            seed: number(1, usual[0]),
            clients: number(2, usual[1]),
            messages: number(3, usual[2]),
            stage,
            pace,
            fleet,
        })
    }

    /// Whether the stage bounds the CPU tasks that run at once.
    pub(crate) fn bounds_cpu_tasks(&self) -> bool {
        self.stage >= Stage::Task
    }
}
