//! Programs in all languages that wait for each other, at two coordinators: the command line, the
//! console and the metric of each coordinator name the deadlock.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::{
    coordinator::{Coordinator, Settings},
    redis_server::RedisServer,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::{
    driver_process::{Driver, PATIENCE},
    real::scene::{SECRET, acquire, connect_to},
    trial::Language,
};

/// Programs in the cycle, at the least.
const PROGRAMS: usize = 3;

/// Each program holds one lock, and waits for that of the next one.
#[expect(clippy::print_stdout, reason = "what the kit is for")]
pub(crate) async fn deadlock(languages: &[Language]) -> Result<()> {
    let redis = RedisServer::start().await;
    let settings = Settings::on(&redis.url())
        .with("session.secret", SECRET)
        .with("admin.listen", "127.0.0.1:0");
    let coordinators = [
        Coordinator::start(&settings).await,
        Coordinator::start(&settings).await,
    ];
    let count = languages.len().max(PROGRAMS);
    let names: Vec<_> = (0..count).map(|number| format!("ring-{number}")).collect();
    let mut drivers: Vec<Driver> = Vec::new();
    for (number, language) in languages.iter().cycle().take(count).enumerate() {
        let mut driver = language.driver().await?;
        let coordinator = &coordinators[number % coordinators.len()];
        driver.run(connect_to(&[coordinator.url()])).await?;
        driver.run(of_one_owner(&names[number])).await?;
        drivers.push(driver);
    }
    for (number, driver) in drivers.iter_mut().enumerate() {
        driver
            .send(of_one_owner(&names[(number + 1) % count]))
            .await?;
    }
    let begun = Instant::now();
    let mut told = Vec::new();
    for coordinator in &coordinators {
        let admin = coordinator.admin_address().await;
        let mut after = [None; 3];
        while after.contains(&None) {
            ensure!(begun.elapsed() < PATIENCE, "not named: {after:?}");
            let tells = [
                by_command_line(coordinator, &names)?,
                by_console(admin, &names).await?,
                get(admin, "/metrics")
                    .await?
                    .contains("\nlockkeeper_deadlocks 1"),
            ];
            for (after, tells) in after.iter_mut().zip(tells) {
                *after = after.or(tells.then(|| begun.elapsed()));
            }
            sleep(Duration::from_millis(20)).await;
        }
        told.push(after.map(Option::unwrap_or_default));
    }
    let languages: Vec<_> = languages.iter().map(|it| it.name).collect();
    println!("deadlock of {languages:?}: command line, console and metric of each: {told:?}");
    Ok(())
}

fn of_one_owner(name: &str) -> Value {
    let mut command = acquire(name, name);
    command["owner"] = json!("me");
    command
}

fn by_command_line(coordinator: &Coordinator, names: &[String]) -> Result<bool> {
    let tests: PathBuf = std::env::current_exe()?;
    let tool = tests.parent().map(|it| it.with_file_name("lockkeeper"));
    let output = Command::new(tool.context("it has a folder")?)
        .args(["why", &names[0], "--server", &coordinator.url()])
        .args(["--output", "json"])
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "why: {errors}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let waits = &answer["deadlocks"][0];
    let is_sure = waits["is_possible"].as_bool() != Some(true);
    let is_whole = waits["waits"].as_array().map(Vec::len) == Some(names.len());
    Ok(is_sure && is_whole)
}

async fn by_console(admin: SocketAddr, names: &[String]) -> Result<bool> {
    let text = get(admin, "/api/v1/overview").await?;
    let banners = text.split("\r\n\r\n").nth(1).context("a body")?;
    Ok(banners.contains("deadlock") && names.iter().all(|it| banners.contains(it)))
}

async fn get(admin: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    ensure!(text.starts_with("HTTP/1.1 200"), "{path}: {text}");
    Ok(text)
}
