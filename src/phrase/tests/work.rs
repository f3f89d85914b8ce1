//! Phrases of work that goes on and of what it publishes: status comments, checks, branches, pull
//! requests, risks, notes of a run. Never leaves a phrase out.

use super::{InWords, Language, Said, phrases};

pub(super) fn all() -> Vec<(&'static str, Vec<Said>)> {
    vec![
        ("branch", branch()),
        ("check", check()),
        ("pull", pull()),
        ("risk", risk()),
        ("run", run()),
        ("status", status()),
        ("model", model()),
    ]
}

fn branch() -> Vec<Said> {
    use crate::phrase::branch::*;
    let files = ["count.sh".to_owned(), "test.sh".to_owned()];
    let forbids = fork_forbids(Language::English, "eve/words");
    phrases! {
        moved("lines");
        carried("1a2b3c", "4d5e6f");
        conflicts(&files);
        settled(&files);
        beside_conflict("lines", &files);
        there_already("lines");
        up_to_date("lines", "main");
        nothing_own("lines", "main");
        only_people("main", &files);
        not_settled("main", &files, "a person has to choose");
        merged("main", "lines", 1, &[]);
        merged("main", "lines", 3, &files);
        fork_deleted();
        fork_forbids("eve/words");
        fork_without_app("eve/words");
        fork_not_here(Some("eve/words"));
        fork_not_here(None);
        fork_merge(&forbids);
        patch_title();
        patch_how("1a2b3c");
        patch_on_branch("agent/1-words-unfinished", "change.patch", "1a2b3c");
        patch_too_large();
        patch_has_secret();
    }
}

fn check() -> Vec<Said> {
    use crate::phrase::check::*;
    let names = ["`build`".to_owned(), "`lint`".to_owned()];
    let many: Vec<String> = (1..13).map(|at| format!("`c{at}`")).collect();
    phrases! {
        head_moved("mona", "1a2b3c");
        again("/agent");
        base_fails("`build`", "1a2b3c");
        base_unknown("`build`", "1a2b3c", "/agent");
        why(Why::Closed);
        why(Why::HeadMoved);
        why(Why::PassedMeanwhile);
        why(Why::Flaky);
        why(Why::NoneFails);
        why(Why::NotOver);
        why(Why::UnderWay);
        why(Why::OthersUnderWay);
        why(Why::BaseUnderWay);
        why(Why::RunAgain);
        enough("`build`", 2);
        went_on("`build`");
        unread("the statuses");
        list(&names);
        list(&many);
        working();
        working_summary("ID");
        ended(Ended::Verified);
        ended(Ended::NotVerified);
        ended(Ended::WentOn);
        ended(Ended::Regressed);
        ended(Ended::Stopped);
        ended(Ended::GaveUp);
        ended(Ended::Nothing);
        ended(Ended::Refused);
        table_head();
        cell(None);
        cell(Some(Some(0)));
        cell(Some(Some(1)));
        cell(Some(None));
        nothing_run();
        of_job("ID");
    }
}

fn pull() -> Vec<Said> {
    use crate::phrase::pull::*;
    let from = Origin {
        app: "Forgehand",
        model: "test-model",
        asker: "mona",
        spent: "2 turns",
        took: "3 s",
        base: "1a2b3c",
        job: "ID",
    };
    phrases! {
        untitled();
        headings();
        cut_off(&["npm test".to_owned()]);
        issue("1", true);
        issue("1", false);
        by_schedule("`nightly`", "2026-01-02 03:04 UTC");
        by_milestone("`parser`", "`main`");
        by_task("`task/words`");
        nothing_left();
        no_risks();
        not_filled();
        file('A', "`a.sh`", "+1 −0");
        file('D', "`b.sh`", "+0 −9");
        file('M', "`c.sh`", "+1 −1");
        binary();
        more_files(1);
        more_files(3);
        more_remarks(1);
        more_remarks(4);
        no_checks();
        table();
        about_table();
        not_run();
        exit(0, "3 s");
        exit(1, "3 s");
        no_exit_code();
        repaired("`sh test.sh`");
        unnamed_model();
        origin(&from);
        tokens(1, 200, 40);
        tokens(2, 200, 40);
        edited("1", "2026-01-02 03:04 UTC");
    }
}

fn risk() -> Vec<Said> {
    use crate::phrase::risk::*;
    phrases! {
        too_long();
        automation("`ci.yml`");
        skipped("`a_test.py`", "`@skip`");
        swallowed("`test.sh`", "`exit 0`");
        fewer_tests("`a_test.py`", 1);
        fewer_tests("`a_test.py`", 2);
        fewer_assertions("`a_test.py`", 1);
        fewer_assertions("`a_test.py`", 2);
        looser("`a_test.py`");
        always_true("`a_test.py`", "`assert True`");
        install_script("`package.json`", "`postinstall`");
        fetched_and_run("`setup.sh`", "`curl … | sh`");
        other_registry("`Cargo.lock`", "`evil.example`");
        minified("`app.js`", "90 KiB");
        test_deleted("`a_test.py`");
        test_edited("`a_test.py`");
        lockfile("`Cargo.lock`");
        binary("`logo.png`", "4 KiB");
        deletes_much(1, 900, 3);
        deletes_much(12, 900, 3);
        too_large((1_200, 3), (1_000, 50));
    }
}

fn run() -> Vec<Said> {
    use crate::phrase::run::*;
    phrases! {
        checks_failed();
        breaks_rules("`.gitmodules`: this file makes git fetch");
        hidden_text();
        this_run_only("there is no repository");
        begins_anew();
        ended_before();
        no_effect(".github/forgehand.toml", "image, egress");
        image_alone(".devcontainer/devcontainer.json", "mounts, runArgs");
        several_dev_containers("`api`, `web`", "devcontainer = \"api\"");
        no_dev_container(".devcontainer/api/devcontainer.json");
        nothing_used("`.github/forgehand.toml` line 2: unknown key");
        format_failed("`fmt`", "exit 3");
        many_skills(60, 50);
        no_file();
        not_used("`AGENTS.md`", "it is no file of the repository");
    }
}

fn status() -> Vec<Said> {
    use crate::phrase::status::*;
    phrases! {
        needs_you();
        queued("/agent", 0);
        queued("/agent", 1);
        queued("/agent", 3);
        blocked("`a.example`", 0, "`egress.hosts`");
        blocked("`a.example`", 2, "`egress.hosts`");
        starting();
        working();
        answered();
        reviewed("pass", 0);
        reviewed("needs_fix", 1);
        reviewed("rebuild", 4);
        how_to_answer("/agent", false);
        how_to_answer("/agent", true);
        may_i();
        consequence();
        may_i_run("run_command:curl");
        yes_or_no("/agent");
        until_then("/agent", "2026-01-02 03:04 UTC");
        stages();
        agents_plan();
        again(Some("agent"));
        again(None);
        kept("agent/1-words-unfinished");
        opened("2", "agent/1-words", "1a2b3c");
        pushed("agent/1-words", "1a2b3c");
        no_change();
        not_done();
        not_worked_on();
        failed();
        because();
        stopped();
        stop();
        tokens(1, 200, 40);
        tokens(2, 200, 40);
        stage_done("S", "3 s");
        two("One.", "Two.");
        attempt(2);
        job("ID");
        the_model();
        reminder("mona", "/agent", "2026-01-02 03:04 UTC");
    }
}

fn model() -> Vec<Said> {
    use crate::phrase::model::*;
    let model = || "qwen3".to_owned();
    let fell_back = ModelNote::FellBack {
        from: model(),
        why: "503".to_owned(),
        to: "gpt-5".to_owned(),
    };
    phrases! {
        note(&ModelNote::CutSilently { model: model(), read: 4_096 });
        note(&ModelNote::ToolsInText { model: model() });
        note(&fell_back);
        no_summary("the reply was empty");
    }
}
