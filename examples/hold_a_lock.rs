//! Holds a lock around work. Run it with `cargo run -p lockkeeper-client --example hold_a_lock`;
//! arguments are `http://127.0.0.1:7625 nightly-report 10`.
//!
//! Exits with 0 if the work was done, and with 3 if the lock was lost meanwhile. The client resumes
//! the session and repeats interrupted operations automatically.

#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::{env, process::ExitCode, time::Duration};

use lockkeeper_client::{Client, Error, SessionState};

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    let mut arguments = env::args().skip(1);
    let server = arguments.next().unwrap_or("http://127.0.0.1:7625".into());
    let name = arguments.next().unwrap_or("nightly-report".into());
    let seconds = arguments
        .next()
        .and_then(|it| it.parse().ok())
        .unwrap_or(10);

    let client = Client::connect(&server).await?;
    let session = client
        .session()
        .client_name("hold_a_lock")
        .lease(Duration::from_secs(6))
        .open()
        .await?;
    let mut state = session.state();
    let guard = session.lock(&name).acquire().await?;
    println!("holds {name}, fencing token {}", guard.fencing_token());

    let work = work(guard.fencing_token(), seconds);
    tokio::pin!(work);
    loop {
        tokio::select! {
            () = &mut work => break,
            () = guard.lost().cancelled() => {
                // Another holder may have the lock now, or soon.
                println!("lost: {}", guard.loss().map_or(String::new(), |it| it.to_string()));
                return Ok(ExitCode::from(3));
            }
            Ok(()) = state.changed() => if *state.borrow_and_update() == SessionState::Connected {
                println!("resumed");
            }
        }
    }
    // For a resource that cannot compare tokens itself.
    let checked = session.check_token(&name, guard.fencing_token()).await?;
    println!("token is current: {}", checked.current);
    guard.release().await?;
    session.close().await?;
    println!("done");
    Ok(ExitCode::SUCCESS)
}

/// The work: it sends the fencing token with each change.
async fn work(_fencing_token: u64, seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
