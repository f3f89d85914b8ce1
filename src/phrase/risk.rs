//! Remarks of the program on a change, for its reviewer. Names and lines come as code already.
//! Never says that a change is bad.

use super::Language;

/// The difference was cut before it was looked at.
pub fn too_long(language: Language) -> &'static str {
    language.pick(
        "The change is too long to be looked through for weakened tests",
        "改动过长，未能逐行检查测试是否被削弱",
    )
}

/// Files that run by themselves.
pub fn automation(language: Language, path: &str) -> String {
    language.pick(
        format!("Automation was changed: {path}"),
        format!("自动化配置被修改：{path}"),
    )
}

/// A test is skipped.
pub fn skipped(language: Language, path: &str, line: &str) -> String {
    language.pick(
        format!("A test is skipped or narrowed in {path}: {line}"),
        format!("{path} 中有测试被跳过或缩小范围：{line}"),
    )
}

/// An exit code gets lost.
pub fn swallowed(language: Language, path: &str, line: &str) -> String {
    language.pick(
        format!("A failure may be swallowed in {path}: {line}"),
        format!("{path} 中的失败可能被忽略：{line}"),
    )
}

/// Fewer tests than before.
pub fn fewer_tests(language: Language, path: &str, count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    language.pick(
        format!("{path} has {count} test{plural} fewer than before"),
        format!("{path} 比之前少了 {count} 个测试"),
    )
}

/// Fewer assertions than before.
pub fn fewer_assertions(language: Language, path: &str, count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    language.pick(
        format!("{path} has {count} assertion{plural} fewer than before"),
        format!("{path} 比之前少了 {count} 个断言"),
    )
}

/// A comparison that lets more pass.
pub fn looser(language: Language, path: &str) -> String {
    language.pick(
        format!("An exact comparison became a looser one in {path}"),
        format!("{path} 中的精确比较变得宽松"),
    )
}

/// An assertion that cannot fail.
pub fn always_true(language: Language, path: &str, line: &str) -> String {
    language.pick(
        format!("An assertion in {path} is always true: {line}"),
        format!("{path} 中有恒为真的断言：{line}"),
    )
}

/// Something runs when the project is installed.
pub fn install_script(language: Language, path: &str, line: &str) -> String {
    language.pick(
        format!("A command that runs at installation was added in {path}: {line}"),
        format!("{path} 中新增了安装时运行的命令：{line}"),
    )
}

/// Something is fetched and run at once.
pub fn fetched_and_run(language: Language, path: &str, line: &str) -> String {
    language.pick(
        format!("A script from the network is run unseen in {path}: {line}"),
        format!("{path} 直接运行来自网络的脚本：{line}"),
    )
}

/// Packages come from somewhere else.
pub fn other_registry(language: Language, path: &str, host: &str) -> String {
    language.pick(
        format!("{path} takes packages from a host that it did not use before: {host}"),
        format!("{path} 从此前未使用的主机获取软件包：{host}"),
    )
}

/// Lines that nobody can read.
pub fn minified(language: Language, path: &str, size: &str) -> String {
    language.pick(
        format!("{path} has lines that are too long to be reviewed ({size})"),
        format!("{path} 有过长而无法审查的行（{size}）"),
    )
}

/// A test that was there is gone.
pub fn test_deleted(language: Language, path: &str) -> String {
    language.pick(
        format!("An existing test was deleted: {path}"),
        format!("已有的测试被删除：{path}"),
    )
}

/// A test that was there is different.
pub fn test_edited(language: Language, path: &str) -> String {
    language.pick(
        format!("An existing test was edited: {path}"),
        format!("已有的测试被修改：{path}"),
    )
}

/// Other versions of dependencies.
pub fn lockfile(language: Language, path: &str) -> String {
    language.pick(
        format!("A lockfile was changed: {path}"),
        format!("锁文件被修改：{path}"),
    )
}

/// Content that a difference does not show.
pub fn binary(language: Language, path: &str, size: &str) -> String {
    language.pick(
        format!("A binary file was changed: {path} ({size})"),
        format!("二进制文件被修改：{path}（{size}）"),
    )
}

/// Much more goes than comes.
pub fn deletes_much(language: Language, files: usize, deleted: u64, added: u64) -> String {
    let whole = if files == 1 { "whole file" } else { "whole files" };
    language.pick(
        format!("The change deletes much: {files} {whole}, {deleted} lines (it adds {added})"),
        format!("本改动删除较多：{files} 个完整文件，{deleted} 行（新增 {added} 行）"),
    )
}

/// Larger than the repository wants, and what follows.
pub fn too_large(language: Language, found: (u64, usize), most: (u64, u64)) -> String {
    let ((lines, files), (most_lines, most_files)) = (found, most);
    language.pick(
        format!(
            "The change is larger than wanted here: {lines} lines in {files} files, of at most {most_lines} in {most_files} \
             (lockfiles and generated files not counted). It stays a draft"
        ),
        format!(
            "本改动超出此仓库的规模限制：{files} 个文件共 {lines} 行，上限为 {most_files} 个文件 {most_lines} 行\
             （不计锁文件与生成文件）。因此保持草稿状态"
        ),
    )
}
