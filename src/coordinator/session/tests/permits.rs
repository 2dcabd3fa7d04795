//! Permits: one acquire is one grant, of which some may be given back.

use std::sync::Arc;

use lockkeeper_store::script::Mode;
use tokio::time::Instant;

use super::{LEASE, MILLI, SECOND, Table, name};
use crate::{
    error::Error,
    events::What,
    session::watched::LeaseRenewal,
    types::{GrantKey, Owner, PermitGrant, tests::limits},
};

fn take(table: &Table, grant: PermitGrant) -> PermitGrant {
    let now = Instant::now();
    let taken = table.session.register_permits(&table.deadlines, grant, now);
    taken.unwrap().0
}

fn ids(grants: &[PermitGrant]) -> Vec<Vec<u8>> {
    let of = |grant: &PermitGrant| grant.ids.iter().map(|id| id[0]).collect();
    grants.iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn permits_are_found_by_their_owner_and_by_any_of_their_ids() {
    let (table, _stream) = Table::live();
    let mine = take(&table, table.permits("s", &[1, 2], 1));
    take(&table, table.permits("s", &[3], 2));
    let other = Owner::in_session(table.session.id.clone(), "other", &limits()).unwrap();
    let of_other = PermitGrant {
        owner: other.clone(),
        ..table.permits("s", &[4], 3)
    };
    take(&table, of_other);
    take(&table, table.permits("sa", &[5], 4));
    table.take(table.grant("s", Mode::Exclusive, 5));
    let find = |owner: &Owner, wanted: &[u8]| {
        let wanted: Vec<_> = wanted.iter().map(|id| [*id; 16]).collect();
        ids(&table.session.permits_of(&name("s"), owner, &wanted))
    };
    assert_eq!(find(&mine.owner, &[]), [vec![1, 2], vec![3]]);
    assert_eq!(find(&mine.owner, &[2]), [vec![1, 2]]);
    assert_eq!(find(&mine.owner, &[2, 3]), [vec![1, 2], vec![3]]);
    assert!(find(&mine.owner, &[4]).is_empty(), "another owner has it");
    assert_eq!(find(&other, &[]), [vec![4]]);
    assert!(find(&mine.owner, &[5]).is_empty(), "of another semaphore");
    assert_eq!(table.counted(), 6);
}

#[tokio::test(start_paused = true)]
async fn an_owner_holds_permits_since_the_first_of_its_grants() {
    let (table, _stream) = Table::live();
    table.take(table.grant("s", Mode::Read, 5));
    tokio::time::advance(SECOND).await;
    let first = Instant::now();
    let label = take(&table, table.permits("s", &[9], 1)).owner.label;
    tokio::time::advance(SECOND).await;
    take(&table, table.permits("s", &[1], 2));
    take(&table, table.permits("t", &[2], 2));
    let since = |of, label: &Arc<str>| table.session.permits_since(&name(of), label);
    assert_eq!(since("s", &label), Some(first));
    assert_eq!(since("t", &label), Some(Instant::now()));
    assert_eq!(since("s", &"other".into()), None);
    assert_eq!(since("r", &label), None);
}

#[tokio::test(start_paused = true)]
async fn some_permits_are_given_back_and_the_rest_is_renewed_when_it_was_due() {
    let (mut table, _stream) = Table::live();
    let grant = take(&table, table.permits("s", &[1, 2, 3, 4, 5], 7));
    assert_eq!(table.told().unwrap().0, What::Granted);
    tokio::time::advance(SECOND).await;
    let session = table.session.clone();
    session.drop_permits(
        &table.deadlines,
        std::slice::from_ref(&grant),
        &[[1; 16], [2; 16]],
    );
    assert_eq!(table.told(), Some((What::Released, "s".to_owned(), 3)));
    assert_eq!(table.counted(), 3);
    let rest = session.permits_of(&name("s"), &grant.owner, &[]);
    assert_eq!(ids(&rest), [vec![3, 4, 5]]);
    assert_eq!(rest[0].serial, 8, "a renewal on its way was of another set");
    assert_eq!(rest[0].safe_until, grant.safe_until);
    let key = GrantKey::of_permits(&rest[0]);
    assert_eq!(table.deadlines.len(), 1);
    assert_eq!(table.until_due().await, (MILLI * 8900, Some(key)));
    session.drop_permits(&table.deadlines, &rest, &[]);
    assert_eq!(table.told(), Some((What::Released, "s".to_owned(), 0)));
    assert_eq!((table.counted(), table.deadlines.len()), (0, 0));
    session.drop_permits(&table.deadlines, &rest, &[[3; 16]]);
    assert_eq!(table.told(), None, "they are gone already");
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_permits_whose_renewal_is_on_its_way_is_renewed_at_once() {
    let (table, _stream) = Table::live();
    let grant = take(&table, table.permits("s", &[1, 2], 7));
    let (_, key) = table.until_due().await;
    let session = &table.session;
    let now = Instant::now();
    let renewing = table.on_due_at(&key.unwrap(), now).unwrap();
    session.drop_permits(&table.deadlines, &[grant], &[[1; 16]]);
    session.on_renewal(&table.deadlines, &renewing, now, Some(Ok(LEASE)));
    let (after, key) = table.until_due().await;
    assert!(after <= MILLI);
    let again = table.on_due_at(&key.unwrap(), now).unwrap();
    let LeaseRenewal::Permits(renewal) = again.renewal else {
        panic!("{again:?}")
    };
    assert_eq!(
        (renewal.ids.as_ref(), renewal.lease),
        (&[[2; 16]][..], LEASE)
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_stream_takes_no_permits() {
    let (table, stream) = Table::live();
    assert_eq!(table.session.may_take_permits(), Ok(()));
    let grant = table.permits("s", &[1], 1);
    table.session.detach(&stream, Instant::now() + SECOND);
    assert_eq!(
        table.session.may_take_permits(),
        Err(Error::SessionDetached)
    );
    let now = Instant::now();
    let refused = table.session.register_permits(&table.deadlines, grant, now);
    assert_eq!(refused.unwrap_err(), Error::SessionDetached);
}
