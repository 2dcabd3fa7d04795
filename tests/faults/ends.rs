//! The ends of those who contend.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

/// Who has not come to an end by then is stuck, whatever it waits for.
const END_MAX: Duration = Duration::from_secs(25);

/// Waits for the ends of all, none of which may crash, and returns how many have not come.
pub(crate) async fn unended(tasks: Vec<AbortOnDropHandle<()>>) -> usize {
    let deadline = Instant::now() + END_MAX;
    let ends = tasks.into_iter().map(|task| timeout_at(deadline, task));
    let ends = join_all(ends).await;
    let crashed = ends.iter().any(|end| matches!(end, Ok(Err(_))));
    assert!(!crashed, "a contender or a user has crashed");
    ends.iter().filter(|end| end.is_err()).count()
}

#[cfg(test)]
mod tests {
    use lockkeeper_base::tasks::spawn_detached;

    use super::*;

    fn task(work: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(spawn_detached("task", work))
    }

    fn endless() -> AbortOnDropHandle<()> {
        task(std::future::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_end_is_counted() {
        assert_eq!(unended(vec![task(async {})]).await, 0);
        assert_eq!(unended(vec![endless(), task(async {}), endless()]).await, 2);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "has crashed")]
    async fn a_crash_is_found_beside_one_who_does_not_end() {
        unended(vec![endless(), task(async { panic!("on purpose") })]).await;
    }
}
