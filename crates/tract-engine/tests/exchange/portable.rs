use tract_core::{CommitId, RefName, RefTarget, Store, StoreExt, block_on};
use tract_engine::{ApplyOptions, ExportOptions, Repo, export};

use crate::support::{
    done, exported, exported_with, import_all, is_clean, recorded, refs, repo, run, says,
    with_everything,
};

#[track_caller]
fn arrives(from: &Repo, options: &ApplyOptions) {
    let lines = exported(from);
    let to = repo();
    let report = done(&to, &lines, options);
    assert_eq!(report.unlinked_blobs, 0);
    assert_eq!(says(&to), says(from));
    is_clean(&to);
    // What has arrived is exported as it was, and arrives again without a trace.
    assert_eq!(exported(&to), lines);
    let stats = block_on(to.store().stats(to.name())).expect("stats");
    assert_eq!(done(&to, &lines, options).unlinked_blobs, 0);
    assert_eq!(block_on(to.store().stats(to.name())).expect("stats"), stats);
}

#[test]
fn portable() {
    let from = with_everything();
    for options in [
        ApplyOptions::default(),
        ApplyOptions { batch: Some(9), ..ApplyOptions::default() },
        ApplyOptions { atomic: true, ..ApplyOptions::default() },
    ] {
        arrives(&from, &options);
    }
}

#[test]
fn recordings_are_portable() {
    let from = repo();
    import_all(&from, &recorded());
    arrives(&from, &ApplyOptions { batch: Some(500), ..ApplyOptions::default() });
}

#[test]
fn chosen_refs_travel_alone() {
    let from = with_everything();
    let tag = RefName::tag("before").expect("a name");
    let to = repo();
    let lines = exported_with(&from, &ExportOptions { refs: Some(vec![tag.clone()]) });
    done(&to, &lines, &ApplyOptions::default());
    assert_eq!(refs(&to).iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), [tag]);
    let stats = block_on(to.store().stats(to.name())).expect("stats");
    assert_eq!(stats.commits, 7);
}

#[test]
fn a_changed_line_is_refused() {
    let from = with_everything();
    let lines = exported(&from);
    let tagged = |(name, to): (RefName, RefTarget)| match name.as_str() {
        "tags/before" => to.commit(),
        _ => None,
    };
    let to = |id: CommitId| format!(r#""name":"tags/before","to":"{id}""#);
    let tagged = to(refs(&from).into_iter().find_map(tagged).expect("a tag"));
    let nowhere = to(CommitId::from_bytes([0; 32]));
    // Each fault and what tells it.
    let faults: [(&str, &str, &str); 6] = [
        // The op says something else than the record.
        (
            r#"{"op":"user","text":"Where is the bug?""#,
            r#"{"op":"user","text":"Where?""#,
            "record_disagrees",
        ),
        // The record says something else than its id.
        (r#""by":"tool""#, r#""by":"user""#, "other_id"),
        // A blob's bytes are not those of its id.
        (r#""text":"\"In lib.rs.\"""#, r#""text":"\"In bib.rs.\"""#, "other_id"),
        // A blob line is missing.
        (r#""text":"\"Be brief.\"""#, "", "missing_object"),
        // Another operation than that of the record.
        (
            r#"{"op":"note","text":"a line in the log""#,
            r#"{"op":"reasoning","text":"a line in the log""#,
            "record_disagrees",
        ),
        // A ref that leads nowhere.
        (&tagged, &nowhere, "missing_object"),
    ];
    for (is, becomes, code) in faults {
        assert!(lines.contains(is), "{is}");
        let changed: String = match becomes {
            "" => lines.split_inclusive('\n').filter(|line| !line.contains(is)).collect(),
            _ => lines.replacen(is, becomes, 1),
        };
        let to = repo();
        let (report, events) =
            run(&to, &changed, &ApplyOptions { atomic: true, ..ApplyOptions::default() });
        assert_eq!((report.done, report.refused), (0, 1), "{becomes}");
        let error = events[0].result.as_ref().expect_err("it is refused");
        assert_eq!(error.code(), code, "{becomes}: {error}");
        assert!(refs(&to).is_empty());
        assert_eq!(block_on(to.store().stats(to.name())).expect("stats").commits, 0);
    }
}

#[test]
fn a_diverged_ref_is_left_alone() {
    let from = repo();
    done(&from, "{\"op\":\"user\",\"text\":\"theirs\"}", &ApplyOptions::default());
    let to = repo();
    done(&to, "{\"op\":\"user\",\"text\":\"ours\"}", &ApplyOptions::default());
    let before = refs(&to);
    let (_, events) = run(&to, exported(&from), &ApplyOptions::default());
    let error = events.last().expect("an event").result.as_ref().expect_err("it is refused");
    assert_eq!(error.code(), "diverged");
    assert_eq!(refs(&to), before);
    // Where theirs continues ours, it is moved forward.
    done(&from, "{\"op\":\"user\",\"text\":\"more\"}", &ApplyOptions::default());
    let third = repo();
    let lines = exported(&from);
    done(&third, &lines, &ApplyOptions::default());
    done(&from, "{\"op\":\"user\",\"text\":\"and more\"}", &ApplyOptions::default());
    done(&third, &exported(&from), &ApplyOptions::default());
    assert_eq!(refs(&third), refs(&from));
    // And never back.
    let (_, events) = run(&third, &lines, &ApplyOptions::default());
    assert!(events.last().expect("an event").result.is_err());
}

#[test]
fn an_export_of_what_is_not_whole_is_refused() {
    let repo = repo();
    let absent = ExportOptions { refs: Some(vec![RefName::branch("nowhere").expect("a name")]) };
    let error = block_on(export(&repo, &absent)).expect_err("there is no such ref");
    assert_eq!(error.code(), "unknown_branch");
    let store: &dyn Store = repo.store().as_ref();
    assert!(block_on(store.repos()).expect("it reads").is_empty());
    let id = CommitId::from_bytes([1; 32]);
    assert!(block_on(store.commit(repo.name(), id)).expect("it reads").is_none());
}
