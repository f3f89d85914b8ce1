//! Phrases of short answers: commands, steering, plans, drafts, threads, reviews.
//! Never leaves a phrase out.

use super::{InWords, Language, Said, phrases};
use crate::phrase::thread::Tally;

pub(super) fn all() -> Vec<(&'static str, Vec<Said>)> {
    vec![
        ("command", command()),
        ("draft", draft().into_iter().chain(answers_to_create()).collect()),
        ("measure", measure()),
        ("plan", plan()),
        ("review", review()),
        ("steer", steer()),
        ("thread", thread()),
    ]
}

fn command() -> Vec<Said> {
    use crate::phrase::command::*;
    phrases! {
        closed(false);
        closed(true);
        only_for_pulls("review");
        unknown_verb(Some("fixx"));
        unknown_verb(None);
        bad_argument("revise", Expected::Remarks);
        bad_argument("answer", Expected::Words);
        bad_argument("ask", Expected::Question);
        bad_argument("fix", Expected::NoOptions);
        bad_argument("retry", Expected::PublishOrNothing);
        bad_argument("create", Expected::NumberOrNothing);
        bad_argument("budget", Expected::Sum);
        taken_back(1, false);
        taken_back(2, true);
        table("/agent", "agent");
        nothing_to_stop();
        nothing_asked();
        too_many_answers();
        stands("ID", "queued", Some(0), None);
        stands("ID", "queued", Some(2), Some("GitHub is not reachable"));
        stands("ID", "leased", None, None);
        stands("ID", "waiting", None, None);
        stands("ID", "publishing", None, None);
        stands("ID", "done", None, None);
        stands("ID", "cancelled", None, Some("mona asked to stop"));
        stands("ID", "dead", None, Some("the model does not answer"));
        nothing_yet(false);
        nothing_yet(true);
    }
}

fn draft() -> Vec<Said> {
    use crate::phrase::draft::*;
    let labels_of = ["`bug`".to_owned()];
    let left_out = ["`urgent`".to_owned(), "`later`".to_owned()];
    phrases! {
        heading(Section::Context);
        heading(Section::Goal);
        heading(Section::Environment);
        heading(Section::Reproduction);
        heading(Section::Observed);
        heading(Section::Expected);
        heading(Section::Evidence);
        heading(Section::Hypotheses);
        heading(Section::Impact);
        heading(Section::Severity);
        heading(Section::Scope);
        heading(Section::NonGoals);
        heading(Section::Acceptance);
        heading(Section::Validation);
        heading(Section::Risks);
        origin("#1");
        drafts(1);
        drafts(2);
        noticed(1);
        noticed(2);
        nothing_drafted();
        title(1, "bug", "The last word is not counted");
        part("Count tabs");
        labels(&[], &[]);
        labels(&labels_of, &left_out);
        labels_unknown();
        almost_the_same(7, 91);
        candidates();
        no_candidates(2);
        state(false, true);
        state(false, false);
        state(true, true);
        state(true, false);
        found_by(52, "`count.sh`");
        not_searched("GitHub did not answer");
        how_to_create("/agent", 1, "1a2b3c");
        kept_for_maintainers("ID");
        how_to_advise("/agent", 1);
        too_long_to_show();
        created(8, "https://github.com/octo/words/issues/8", &[]);
        created(8, "https://github.com/octo/words/issues/8", &[9, 10]);
        advised();
        not_created("GitHub refused it");
        not_linked(9);
    }
}

fn answers_to_create() -> Vec<Said> {
    use crate::phrase::draft::{Answer, answer};
    let id = || "ID".to_owned();
    phrases! {
        answer("/agent", &Answer::NoDraft);
        answer("/agent", &Answer::WhichOne { numbers: vec![1, 2] });
        answer("/agent", &Answer::NoSuch { number: 3 });
        answer("/agent", &Answer::Younger { number: 1 });
        answer("/agent", &Answer::Withdrawn { number: 1 });
        answer("/agent", &Answer::Exists { number: 1, issue: 8 });
        answer("/agent", &Answer::AdvisoryExists { number: 1 });
        answer("/agent", &Answer::InHand { number: 1 });
        answer("/agent", &Answer::Changed { number: 1 });
        answer("/agent", &Answer::NotShown { number: 1 });
        answer("/agent", &Answer::NoAdvisories { id: id() });
    }
}

fn plan() -> Vec<Said> {
    use crate::phrase::plan::*;
    phrases! {
        needs_approval();
        parts();
        how("/agent");
        begin_it("/agent");
    }
}

fn review() -> Vec<Said> {
    use crate::phrase::review::*;
    phrases! {
        verdict("pass");
        verdict("needs_fix");
        verdict("rebuild");
        severity("critical");
        severity("major");
        severity("minor");
        outside();
        said_before(1);
        said_before(3);
        drift();
        head_moved("1a2b3c", "4d5e6f");
    }
}

fn measure() -> Vec<Said> {
    use crate::phrase::measure::*;
    let files = Figures {
        acc: [45.55, 72.2, 81.1],
        mrr: 71.3,
    };
    let functions = Figures { mrr: 40.0, ..files };
    phrases! {
        summary(180, 2, files, Some(functions));
        summary(1, 0, files, None);
        below(65.25, 70, "FIGURES");
        no_suite("evals/cases.jsonl", "main");
        bad_suite("evals/cases.jsonl", "line 3 is no case");
        nothing_asked(4, "REASON");
        elsewhere("octo/other");
        switched_off();
        too_long(6);
    }
}

fn steer() -> Vec<Said> {
    use crate::phrase::steer::*;
    phrases! {
        passed_on();
        nothing_to_retry();
        still_going_on();
        went_well("/agent");
        nothing_to_publish("/agent");
    }
}

fn thread() -> Vec<Said> {
    use crate::phrase::thread::{Said as Verdict, elsewhere, fixed_in, lead, tally, too_many};
    let each = Tally {
        fixed: 1,
        elsewhere: 1,
        disputed: 1,
        deferred: 1,
        unchanged: 1,
        unanswered: 2,
    };
    phrases! {
        lead(Verdict::Fixed);
        lead(Verdict::Disputed);
        lead(Verdict::Deferred);
        lead(Verdict::Unchanged);
        lead(Verdict::Unanswered);
        fixed_in("1a2b3c");
        elsewhere();
        tally(&each);
        too_many(50, 3);
    }
}
