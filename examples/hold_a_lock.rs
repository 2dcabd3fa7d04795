//! Holds a lock around work, and stops the work if the lock is lost:
//! `cargo run -p lockkeeper-client --example hold_a_lock`, with the address of a coordinator in
//! `LOCKKEEPER_SERVER`.

#![expect(clippy::print_stdout, reason = "it shows what happens")]

use std::{env, error::Error, time::Duration};

use lockkeeper_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::connect(&env::var("LOCKKEEPER_SERVER")?).await?;
    let session = client.session().client_name("hold_a_lock").open().await?;
    let guard = session.lock("nightly-report").acquire().await?;
    tokio::select! {
        () = work(guard.fencing_token()) => guard.release().await?,
        // Another holder may have the lock now, or soon.
        () = guard.lost().cancelled() => return Err("the lock was lost".into()),
    }
    Ok(session.close().await?)
}

/// The work: it sends the fencing token with each change.
async fn work(fencing_token: u64) {
    println!("begin with token {fencing_token}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("end");
}
