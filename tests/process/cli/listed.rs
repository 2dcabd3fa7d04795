//! What `lockkeeper list` shows of a real coordinator.

use super::tool::assert_code;
use crate::prelude::*;

async fn list(coordinator: &Coordinator, arguments: &[&str]) -> String {
    let arguments = [&["list"], arguments].concat();
    let output = lockkeeper(coordinator, &arguments).output().await.unwrap();
    assert_code(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn locks_are_chosen_and_ordered_by_how_long_they_are_held() {
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let mut client = coordinator.client().await;
    let mut session = client.open().await;
    session.acquire("older").await;
    let longer = ["--held-longer-than", "300ms", "--output", "json"];
    eventually("it is held for longer", || async {
        list(&coordinator, &longer).await.contains("older")
    })
    .await;
    session.acquire("newer").await;
    // For how long an owner without a session holds a lock is not known.
    assert!(client.gets_for("apart", "a", secs(30)).await);

    let shown = list(&coordinator, &longer).await;
    assert!(
        shown.contains("heldFor") && !shown.contains("apart"),
        "{shown}"
    );
    assert_eq!(list(&coordinator, &["--held-longer-than", "1h"]).await, "");
    let shown = list(&coordinator, &["--sort", "held"]).await;
    let rows: Vec<_> = shown.lines().collect();
    let names: Vec<_> = rows.iter().map(|row| row.split(' ').next()).collect();
    assert_eq!(
        names,
        ["NAME", "older", "newer", "apart"].map(Some),
        "{shown}"
    );
    assert!(rows[0].contains("  HELD  "), "{shown}");
}
