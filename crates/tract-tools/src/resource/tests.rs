use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::fs::{Filesystem, FsPath, MemoryFs};

type Log = Arc<StdMutex<Vec<String>>>;

struct A(usize);
struct B(#[allow(dead_code)] Arc<A>);
struct C;

fn counted(count: &Arc<AtomicUsize>) -> impl Fn(&Scope<'_>) -> Result<Arc<A>, BoxError> + use<> {
    let count = Arc::clone(count);
    move |_| Ok(Arc::new(A(count.fetch_add(1, Ordering::SeqCst))))
}

fn closes_into<T>(log: &Log, what: &str) -> impl Fn(&T) -> Result<(), BoxError> + use<T> {
    let (log, what) = (Arc::clone(log), what.to_owned());
    move |_| {
        log.lock().unwrap().push(what.clone());
        Ok(())
    }
}

#[test]
fn each_scope_makes_as_often_as_it_says() {
    let expected = [
        (Lifetime::Singleton, [0, 0, 0]),
        (Lifetime::PerCall, [0, 0, 1]),
        (Lifetime::Prototype, [0, 1, 2]),
    ];
    for (lifetime, expected) in expected {
        let count = Arc::new(AtomicUsize::new(0));
        let binding = match lifetime {
            Lifetime::Singleton => Binding::singleton(counted(&count)),
            Lifetime::PerCall => Binding::per_call(counted(&count)),
            Lifetime::Prototype => Binding::prototype(counted(&count)),
        };
        let resources = Arc::new(Resources::builder().bind(binding).build().unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 0, "nothing is made before it is asked for");
        let call = CallResources::new(Some(Arc::clone(&resources)));
        let mut found = vec![call.get::<A>().unwrap().0, call.get::<A>().unwrap().0];
        let other = CallResources::new(Some(resources));
        found.push(other.get::<A>().unwrap().0);
        assert_eq!(found, expected);
    }
}

#[test]
fn closing_goes_backwards_and_past_what_fails() {
    let log = Log::default();
    let closes_b = closes_into(&log, "b");
    let closes_stuck = move |b: &B| closes_b(b).and(Err("it is stuck".into()));
    let builder = Resources::builder()
        .bind(
            Binding::singleton(|_| Ok::<_, BoxError>(Arc::new(A(0)))).close(closes_into(&log, "a")),
        )
        .bind(
            Binding::singleton(|scope| Ok::<_, ResourceError>(Arc::new(B(scope.get::<A>()?))))
                .close(closes_stuck),
        )
        .bind(
            Binding::per_call(|scope| {
                scope.get::<B>()?;
                Ok::<_, ResourceError>(Arc::new(C))
            })
            .close(closes_into(&log, "c")),
        );
    let resources = Arc::new(builder.build().unwrap());
    let call = CallResources::new(Some(Arc::clone(&resources)));
    call.get::<C>().unwrap();
    assert!(call.close().is_empty());
    assert!(matches!(call.get::<C>(), Err(ResourceError::Closed)));
    assert!(matches!(call.get::<A>(), Err(ResourceError::Closed)), "the call is over");
    let failed = resources.close();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].to_string().contains("it is stuck"), "{failed:?}");
    assert_eq!(*log.lock().unwrap(), ["c", "b", "a"]);
    assert!(matches!(resources.get::<A>(), Err(ResourceError::Closed)));
    assert!(resources.close().is_empty(), "a second time does nothing");
}

#[test]
fn cycles_captives_duplicates_and_failures_are_reported() {
    struct D;
    let resources = Resources::builder()
        .bind(Binding::singleton(|scope| {
            scope.get::<B>().map(|b| Arc::new(A(Arc::strong_count(&b))))
        }))
        .bind(Binding::singleton(|scope| scope.get::<A>().map(|a| Arc::new(B(a)))))
        .bind(Binding::<C>::singleton(|_| Err::<_, BoxError>("no disk".into())))
        .bind(Binding::<D>::singleton(|_| -> Result<_, BoxError> { panic!("boom") }))
        .build()
        .unwrap();
    let Err(ResourceError::Cycle { path }) = resources.get::<A>() else { panic!("no cycle") };
    assert_eq!(path.len(), 3);
    assert_eq!(path.first(), path.last());
    assert!(resources.get::<C>().err().unwrap().to_string().contains("no disk"));
    assert!(resources.get::<D>().err().unwrap().to_string().contains("boom"));
    assert!(matches!(resources.get::<u8>(), Err(ResourceError::Unbound { .. })));
    assert_eq!(resources.get_optional::<u8>().unwrap(), None);

    let twice = Resources::builder().bind(Binding::value(Arc::new(1_u8)));
    let twice = twice.bind(Binding::value(Arc::new(2_u8))).build();
    assert_eq!(twice.unwrap_err().code(), "resource_duplicate");

    let captive = Resources::builder()
        .bind(Binding::per_call(|_| Ok::<_, BoxError>(Arc::new(A(1)))))
        .bind(Binding::singleton(|scope| scope.get::<A>().map(|a| Arc::new(B(a)))))
        .build()
        .map(Arc::new)
        .unwrap();
    assert_eq!(captive.get::<A>().err().unwrap().code(), "resource_no_call");
    let call = CallResources::new(Some(captive));
    assert!(call.get::<A>().is_ok());
    assert_eq!(call.get::<B>().err().unwrap().code(), "resource_captive");
}

#[test]
fn a_provider_that_goes_past_its_scope_is_reported_and_does_not_hang() {
    let shared: Arc<StdMutex<Option<Arc<Resources>>>> = Arc::default();
    let theirs = Arc::clone(&shared);
    let resources = Resources::builder()
        .bind(Binding::value(Arc::new(A(1))))
        .bind(Binding::singleton(move |_| {
            let resources = theirs.lock().unwrap().clone().ok_or("not yet")?;
            resources.get::<C>()?;
            Ok::<_, BoxError>(Arc::new(B(resources.get::<A>()?)))
        }))
        .bind(Binding::singleton(|_| Ok::<_, BoxError>(Arc::new(C))))
        .build()
        .map(Arc::new)
        .unwrap();
    *shared.lock().unwrap() = Some(Arc::clone(&resources));
    assert_eq!(resources.get::<B>().err().unwrap().code(), "resource_reentrant");
    assert!(resources.get::<C>().is_ok(), "and others continue");
    shared.lock().unwrap().take();
}

#[test]
fn resources_made_after_the_snapshot_are_reset() {
    struct Late(Arc<MemoryFs>);
    let (first, late) =
        ["0", "5"].map(|text| Arc::new(MemoryFs::of([("n", text)]).unwrap())).into();
    let n = FsPath::parse("n").unwrap();
    let made = Arc::clone(&late);
    let resources = Resources::builder()
        .bind(
            Binding::value(Arc::clone(&first))
                .snapshots(|files| Arc::clone(files) as Arc<dyn Snapshot>),
        )
        .bind(
            Binding::singleton(move |_| Ok::<_, BoxError>(Arc::new(Late(Arc::clone(&made)))))
                .snapshots(|late| Arc::clone(&late.0) as Arc<dyn Snapshot>),
        )
        .build()
        .unwrap();
    for _ in 0..2 {
        let saved = resources.snapshot().unwrap();
        resources.get::<MemoryFs>().unwrap().write(&n, b"9").unwrap();
        resources.get::<Late>().unwrap().0.write(&n, b"9").unwrap();
        resources.restore(saved).unwrap();
        assert_eq!([&first, &late].map(|files| files.read(&n).unwrap()), [b"0", b"5"]);
    }
}

#[test]
fn singletons_are_made_once_by_many_threads() {
    let count = Arc::new(AtomicUsize::new(0));
    let resources = Resources::builder().bind(Binding::singleton(counted(&count))).build().unwrap();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| assert_eq!(resources.get::<A>().unwrap().0, 0));
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn resources_are_closed_when_they_are_dropped() {
    let log = Log::default();
    let resources = Resources::builder()
        .bind(
            Binding::singleton(|_| Ok::<_, BoxError>(Arc::new(A(0)))).close(closes_into(&log, "a")),
        )
        .bind(Binding::per_call(|_| Ok::<_, BoxError>(Arc::new(C))).close(closes_into(&log, "c")))
        .build()
        .unwrap();
    let resources = Arc::new(resources);
    let call = CallResources::new(Some(Arc::clone(&resources)));
    call.get::<A>().unwrap();
    call.get::<C>().unwrap();
    drop(call);
    assert_eq!(*log.lock().unwrap(), ["c"], "of the call, and nothing that others share");
    drop(resources);
    assert_eq!(*log.lock().unwrap(), ["c", "a"]);
}
