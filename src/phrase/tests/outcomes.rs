//! Phrases of how work ends: limits, money, rules, reasons. Never leaves a phrase out.

use super::{InWords, Language, Said, phrases};
use crate::money::{Cap, Usd};

pub(super) fn all() -> Vec<(&'static str, Vec<Said>)> {
    vec![
        ("limit", limit()),
        ("money", money()),
        ("policy", policy()),
        ("reason", reason()),
        ("repository", repository()),
        ("stuck", stuck()),
    ]
}

fn limit() -> Vec<Said> {
    use crate::phrase::limit::*;
    phrases! {
        of("3", "60");
        reached("replies", "60 of 60");
        reached("tokens", "2000000 of 2000000");
        reached("time", "1 h of 1 h");
        reached("money", "$5.00 of $5.00");
        near(80.0, "replies", "48 of 60");
        near(80.0, "tokens", "80 of 100");
        near(80.0, "time", "48 min of 1 h");
        near(80.0, "money", "$4.00 of $5.00");
    }
}

fn money() -> Vec<Said> {
    use crate::phrase::money::*;
    let usd = Usd::from_dollars;
    let used = |cap, sum| Used {
        cap,
        most: usd(5.0),
        sum: usd(sum),
    };
    let help = Help {
        command: "/agent",
        most: usd(50.0),
    };
    let none = Help {
        command: "/agent",
        most: Usd::ZERO,
    };
    phrases! {
        near(&used(Cap::Job, 4.1));
        near(&used(Cap::Issue, 4.1));
        near(&used(Cap::Pull, 4.1));
        near(&used(Cap::RepositoryDay, 4.1));
        near(&used(Cap::InstallationDay, 4.1));
        near(&used(Cap::ServiceDay, 4.1));
        reached(&used(Cap::Issue, 5.0), &help);
        reached(&used(Cap::Issue, 5.0), &none);
        reached(&used(Cap::RepositoryDay, 5.0), &help);
        unpriced("qwen3");
        not_counted("qwen3");
        cost(usd(0.5), false);
        cost(Usd::ZERO, true);
        cost(usd(0.5), true);
        used_of(&used(Cap::Issue, 4.1));
        used_of(&used(Cap::Pull, 4.1));
        set(&used(Cap::Issue, 1.0), Some(usd(20.0)));
        set(&used(Cap::Pull, 6.0), None);
        too_much(usd(90.0), usd(50.0));
        too_much(usd(90.0), Usd::ZERO);
    }
}

fn policy() -> Vec<Said> {
    use crate::phrase::policy::*;
    let broken = ["one".to_owned(), "two".to_owned()];
    let names = ["`A`".to_owned(), "`a`".to_owned()];
    phrases! {
        rule(&Rule::ForPeople);
        rule(&Rule::Fetches);
        rule(&Rule::Submodule);
        rule(&Rule::Protected);
        rule(&Rule::LinkTooLong(1_024));
        rule(&Rule::Mode("104755".to_owned()));
        rule(&Rule::TooLarge { bytes: 90 << 20, most: 10 << 20 });
        rule(&Rule::NoContent);
        rule(&Rule::NotUtf8);
        rule(&Rule::PathTooLong(4_000));
        rule(&Rule::Invisible('\u{202e}'));
        rule(&Rule::NotPlain);
        rule(&Rule::DotGit);
        rule(&Rule::LinkNotUtf8);
        rule(&Rule::LinkNotPlain);
        rule(&Rule::LinkUpLate);
        rule(&Rule::LinkLeaves);
        rule(&Rule::LinkIntoGit);
        of_file(".gitmodules", &Rule::Fetches);
        list(&broken);
        too_many(9_000, 5_000);
        tree_too_large();
        change_too_large(200 << 20);
        more(3);
        twins(&names);
        bad_pattern("a[", "unclosed class");
        bad_patterns("too many");
    }
}

fn reason() -> Vec<Said> {
    use crate::phrase::reason::*;
    phrases! {
        needs_input();
        arrived_twice("create_issue", "#12");
        sent_twice();
        last_words("the run got stuck", "I cannot see the file.");
        against_rules("`.gitmodules`: this file makes git fetch");
        no_difference("All is done.");
        before_any_change("mona asked to stop");
        nothing_changed_by_then("the limit of replies is reached (3 of 3)");
        broken_checks("`sh lint.sh`");
        not_accepted("`make check`", "1 failed");
        not_accepted("`make check`", "");
        push_failed();
        not_pushed("the branch is protected");
        pushed_meanwhile("lines");
        put_beside("somebody pushed to `lines` meanwhile");
        no_pull("GitHub refused it");
        given_up();
        attempts("GitHub is not reachable", 5);
        stopped();
        asked_to_stop("mona");
        happened(Happened::Unlabelled);
        happened(Happened::LeftQueue);
        happened(Happened::IssueClosed);
        happened(Happened::IssueDeleted);
        happened(Happened::IssueMoved);
        happened(Happened::PullClosed);
        happened(Happened::CommentDeleted);
        happened(Happened::RepositoryDeleted);
        happened(Happened::RepositoryMoved);
        happened(Happened::TakenOff);
        happened(Happened::Uninstalled);
        happened(Happened::Suspended);
        service_stopped();
        permission("mona has no role in this repository");
        no_answer("2026-01-02 03:04 UTC");
        closed("1");
        pull_over("2", true);
        pull_over("2", false);
        pull_over_meanwhile("2", true);
        pull_over_meanwhile("2", false);
        unlabelled("agent");
        setup_failed("npm ci", "exit code 1", "npm error code ENOTFOUND");
        unknown_text();
        edited();
        head_moved("1a2b3c", "4d5e6f");
        no_branch("next");
        no_repository();
        other_repository("octo/words");
        archived();
        no_role("eve");
        other_account("eve");
        role_too_low("eve", "read");
        only_writers();
        broken_by_merge("`sh lint.sh`");
        unfinished_work("#1");
        a_patch("#2");
        holds_a_secret();
        review_not_posted();
    }
}

fn repository() -> Vec<Said> {
    use crate::phrase::repository::*;
    let file = ".github/forgehand.toml";
    let syntax = Problem::Syntax {
        line: 2,
        said: "unknown field `network`".to_owned(),
    };
    let commands = Problem::NotCommands {
        key: "test",
        most: 20,
        most_bytes: 4_096,
    };
    phrases! {
        problem(file, &syntax);
        problem(file, &Problem::NotMoney);
        problem(file, &Problem::NotALabel { most: 200 });
        problem(file, &Problem::NotAFolder);
        problem(file, &commands);
        problem(".devcontainer/devcontainer.json", &Problem::NotADevContainer);
    }
}

fn stuck() -> Vec<Said> {
    use crate::phrase::stuck::*;
    let tool = || "grep".to_owned();
    let rounds = Stuck::Rounds {
        tools: vec![tool(), "read_file".to_owned()],
        times: 3,
    };
    let edits = Stuck::FailedEdits {
        path: "count.sh".to_owned(),
        times: 6,
    };
    let too_long = Stuck::TooLong {
        said: "maximum context length".to_owned(),
    };
    phrases! {
        why(&Stuck::FailingCall { tool: tool(), times: 3 });
        why(&Stuck::SameCall { tool: tool(), times: 3 });
        why(&rounds);
        why(&Stuck::WrongCalls { turns: 4 });
        why(&edits);
        why(&Stuck::OnlyLooked { turns: 30 });
        why(&Stuck::NoCalls { replies: 3 });
        why(&too_long);
        idle(15, 30);
        open_steps("the limit of replies is reached (3 of 3)", &["Write the test"], 0);
        open_steps("the limit of replies is reached (3 of 3)", &["Write the test", "Run it"], 1);
        open_steps("the limit of replies is reached (3 of 3)", &["Write the test", "Run it"], 4);
    }
}
