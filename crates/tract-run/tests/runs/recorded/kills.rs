//! Killed at every point that there is, and continued: nothing depends on time.

use std::sync::Arc;

use tract_core::{Message, block_on};
use tract_testkit::power::SeededRng;

use super::points::{Death, Point, ProcessLife};
use super::recording::{RecordedMessage, Recording, airline, scale};
use super::simulated::{Model, Setting, SideEffects, Tools, looks};
use crate::support::{memory, messages, repo_on};

/// What becomes of the call that is open when a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostCall {
    /// None is open, or it is run again.
    Nothing,
    /// The call of this reply, from 1, is answered as not executed.
    NotExecuted(usize),
    /// Its outcome is unknown; it had its effect so often.
    Interrupted(usize, usize),
}

/// Every point of a life that is not ended, and what is lost when it ends there.
pub(crate) fn points(recording: &Recording, tools: Tools) -> Vec<(Point, LostCall)> {
    let (mut points, mut reply) = (Vec::new(), 0);
    for entry in &recording.messages {
        match entry.role.as_str() {
            // Instructions, and a person's word with the tools where they changed: one write.
            "system" | "user" => {
                points.extend([
                    (Point::Write, LostCall::Nothing),
                    (Point::Written, LostCall::Nothing),
                ]);
            }
            "assistant" => {
                reply += 1;
                let asking = [Point::Ask, Point::Heard, Point::Told, Point::Write];
                points.extend(asking.map(|at| (at, LostCall::Nothing)));
                let Some(call) = entry.calls.first() else {
                    points.push((Point::Written, LostCall::Nothing));
                    continue;
                };
                assert_eq!(entry.calls.len(), 1, "{}: one call at a time", recording.id);
                let open = |open| match tools {
                    Tools::Effects => open,
                    Tools::Idempotent => LostCall::Nothing,
                };
                let before = open(LostCall::NotExecuted(reply));
                points.push((Point::Written, before));
                let (may_act, acted) = if looks(&call.name) {
                    (before, before)
                } else {
                    if tools == Tools::Effects {
                        // That it starts is written down before it does.
                        points.push((Point::Write, before));
                        points.push((Point::Written, LostCall::Interrupted(reply, 0)));
                    }
                    (open(LostCall::Interrupted(reply, 0)), open(LostCall::Interrupted(reply, 1)))
                };
                points.extend([(Point::Act, may_act), (Point::Acted, acted)]);
                points.extend([(Point::Write, acted), (Point::Written, LostCall::Nothing)]);
            }
            _ => {}
        }
    }
    // What comes last has no answer.
    if recording.messages.last().is_some_and(|entry| entry.role != "assistant") {
        points.push((Point::Ask, LostCall::Nothing));
    }
    points
}

fn setting(recording: &Arc<Recording>, tools: Tools) -> Setting {
    let model = Arc::new(Model(Arc::clone(recording)));
    let mut setting = Setting::new(memory(), model, recording);
    setting.tools = tools;
    setting
}

fn names(points: &[(Point, LostCall)]) -> Vec<Point> {
    points.iter().map(|(point, _)| *point).collect()
}

/// Holds a branch against its recording.
pub(crate) fn check(recording: &Recording, messages: &[Message]) {
    check_but(recording, messages, LostCall::Nothing);
}

/// Holds a branch against its recording, but for the one answer that was lost.
pub(crate) fn check_but(recording: &Recording, messages: &[Message], lost: LostCall) {
    let lost = match lost {
        LostCall::Nothing => None,
        LostCall::NotExecuted(reply) => Some((reply, "not executed: ")),
        LostCall::Interrupted(reply, _) => Some((reply, "interrupted, outcome unknown: ")),
    };
    let lost = lost.map(|(reply, text)| (recording.until(reply - 1).len() + 1, text));
    for (at, (found, wanted)) in messages.iter().zip(&recording.messages).enumerate() {
        let entry = RecordedMessage::of_message(found);
        let what = format!("{} message {}", recording.id, at + 1);
        if let Some((_, text)) = lost.filter(|(place, _)| *place == at) {
            assert!(entry.text.starts_with(text), "{what}: {}", entry.text);
            assert_eq!(entry.answers.map(|(id, _)| id), wanted.answers.clone().map(|(id, _)| id));
        } else {
            assert!(entry.says(wanted), "{what}: expected {wanted:?}, found {entry:?}");
        }
    }
    assert_eq!(messages.len(), recording.messages.len(), "{}", recording.id);
}

/// Kills a first life at a point, lets a second one go to its end, and looks at what is there.
async fn killed_at(
    recording: &Arc<Recording>,
    tools: Tools,
    at: usize,
    points: &[(Point, LostCall)],
) {
    let setting = setting(recording, tools);
    let life = ProcessLife::new(Some(at), Death::Stopped);
    assert!(setting.live(&life).await.is_none(), "{} ends at point {at}", recording.id);
    assert_eq!(life.reached(), names(&points[..=at]), "{}", recording.id);
    setting.live_on().await;
    let lost = points[at].1;
    check_but(recording, &messages(&repo_on(&setting.store).await).await, lost);
    check_effects(recording, &setting.world, lost);
}

/// Each effect happened once, but for the one that was lost.
pub(crate) fn check_effects(recording: &Recording, world: &SideEffects, lost: LostCall) {
    let mut acted = 0;
    for (reply, (_, entry)) in recording.spoken().enumerate() {
        for call in entry.calls.iter().filter(|call| !looks(&call.name)) {
            let times = world.times(reply + 1, &call.id);
            acted += times;
            let expected = match lost {
                LostCall::NotExecuted(open) if open == reply + 1 => 0,
                LostCall::Interrupted(open, times) if open == reply + 1 => times,
                _ => 1,
            };
            assert_eq!(times, expected, "{} {lost:?}: {call:?}", recording.id);
        }
    }
    assert_eq!(world.done().len(), acted, "nothing else was done");
}

/// Recordings with calls that look and calls that act: all of their points are tried.
fn whole(all: &[Arc<Recording>]) -> Vec<Arc<Recording>> {
    let mut both: Vec<Arc<Recording>> = all
        .iter()
        .filter(|recording| {
            let mut calls = recording.messages.iter().flat_map(|entry| &entry.calls);
            calls.clone().any(|call| looks(&call.name)) && calls.any(|call| !looks(&call.name))
        })
        .cloned()
        .collect();
    both.sort_by_key(|recording| recording.messages.len());
    both.truncate(3 + 50 * scale());
    assert!(!both.is_empty() && (all.len() < 50 || both.len() >= 3));
    both
}

#[test]
fn a_turn_costs_the_writes_that_it_should() {
    for recording in airline(50) {
        for tools in [Tools::Effects, Tools::Idempotent] {
            let life = block_on(setting(&recording, tools).live_on());
            assert_eq!(life.reached(), names(&points(&recording, tools)), "{}", recording.id);
        }
    }
}

#[test]
fn killed_at_any_point_the_open_call_is_answered_as_what_became_of_it() {
    let (mut interrupted, mut not_executed, mut kills) = (0, 0, 0);
    let (mut looking, mut acting) = (0, 0);
    for recording in whole(&airline(50)) {
        for call in recording.messages.iter().flat_map(|entry| &entry.calls) {
            *if looks(&call.name) { &mut looking } else { &mut acting } += 1;
        }
        let points = points(&recording, Tools::Effects);
        for at in 0..points.len() {
            block_on(killed_at(&recording, Tools::Effects, at, &points));
            kills += 1;
            match points[at].1 {
                LostCall::Nothing => {}
                LostCall::NotExecuted(_) => not_executed += 1,
                LostCall::Interrupted(..) => interrupted += 1,
            }
        }
    }
    println!("{kills} kills: {interrupted} interrupted, {not_executed} not executed");
    // Of a call that acts, before it is marked and after; of one that looks, until it is answered.
    assert_eq!((interrupted, not_executed), (4 * acting, 2 * acting + 4 * looking));
    assert!(interrupted > 0 && not_executed > 0 && kills > 30);
}

#[test]
fn killed_at_any_point_what_may_run_again_is_as_it_was_recorded() {
    for recording in whole(&airline(50)) {
        let points = points(&recording, Tools::Idempotent);
        for at in 0..points.len() {
            block_on(killed_at(&recording, Tools::Idempotent, at, &points));
        }
    }
}

/// Kills life after life at a random point until one comes to its end; returns how many it killed.
pub(crate) async fn killed_at_random(
    setting: &Setting,
    recording: &Recording,
    draws: &mut SeededRng,
) -> usize {
    let most = points(recording, Tools::Idempotent).len();
    let mut kills = 0;
    loop {
        let life = ProcessLife::new(Some(draws.below(most)), Death::Stopped);
        match setting.live(&life).await {
            Some(done) => break done.unwrap(),
            None => kills += 1,
        }
    }
    kills
}

#[test]
fn killed_again_and_again_they_still_come_to_what_was_recorded() {
    let (mut draws, mut kills) = (SeededRng(20_251_122), 0);
    let recordings = airline(50);
    for recording in &recordings {
        block_on(async {
            let setting = setting(recording, Tools::Idempotent);
            kills += killed_at_random(&setting, recording, &mut draws).await;
            check(recording, &messages(&repo_on(&setting.store).await).await);
        });
    }
    println!("{kills} kills in {} conversations", recordings.len());
    assert!(kills > recordings.len() / 2, "{kills}");
}
