//! The driver of the Rust client, see `clients/conformance.md`.

mod commands;
mod contend;
mod feeds;
mod guards;
mod session;
mod speed;
mod wire;

use std::{collections::HashMap, sync::Arc};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::{Mutex, mpsc},
    task::{AbortHandle, JoinSet},
};

use self::{
    session::State,
    wire::{Command, Failure, print},
};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let (commands, mut from_handlers) = mpsc::unbounded_channel();
    let state = Arc::new(State::new(commands));
    let running: Arc<Mutex<HashMap<u64, AbortHandle>>> = Arc::default();
    let mut tasks = JoinSet::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    print(&json!({ "event": "ready" }));
    loop {
        let command: Command = tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) => serde_json::from_str(&line)?,
                None => break,
            },
            Some(command) = from_handlers.recv() => command,
        };
        if command.action == "cancel" {
            // Dropping the future of an acquire is how a Rust program cancels it.
            if let Some(task) = running.lock().await.remove(&command.target) {
                task.abort();
                print(&Failure::of_kind("cancelled").answer(command.target));
            }
            print(&json!({ "id": command.id, "ok": {} }));
            continue;
        }
        let id = command.id;
        let (state, done) = (Arc::clone(&state), Arc::clone(&running));
        let mut running = running.lock().await;
        let task = tasks.spawn(async move {
            let result = commands::run(&state, command).await;
            if done.lock().await.remove(&id).is_some() {
                match result {
                    Ok(ok) => print(&json!({ "id": id, "ok": ok })),
                    Err(failure) => print(&failure.answer(id)),
                }
            }
        });
        running.insert(id, task);
    }
    state.close().await;
    Ok(())
}
