import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cicl.errors import RepositoryError
from cicl.selection.sources.repository import find_root, identify, is_same_entry, normalise_case

Git = Callable[..., None]


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


@pytest.fixture
def run_git() -> Git:
    def run(where: Path, *arguments: str) -> None:
        where.mkdir(parents=True, exist_ok=True)
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=where, capture_output=True, check=True)

    return run


@pytest.fixture
def committed(tmp_path: Path, run_git: Git) -> Path:
    root = tmp_path.resolve() / "repository"
    run_git(root, "init", "-q")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


def test_a_directory_without_git_is_its_own_root(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    assert find_root(tmp_path / "deep") == (tmp_path / "deep").resolve()


def test_a_directory_inside_a_work_tree_belongs_to_its_top(committed: Path) -> None:
    (committed / "a/b").mkdir(parents=True)
    assert find_root(committed / "a/b") == committed
    assert find_root(committed) == committed
    assert find_root(committed / ".git/hooks") == committed


def test_relative_path_and_symlink_lead_to_the_same_root(
    committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (committed / "a").mkdir()
    (tmp_path / "link").symlink_to(committed / "a", target_is_directory=True)
    monkeypatch.chdir(committed / "a")
    assert find_root(".") == find_root(tmp_path / "link") == committed


def test_an_ignored_directory_is_its_own_root(committed: Path) -> None:
    (committed / ".gitignore").write_text("/projects/\n")
    (committed / "projects/one").mkdir(parents=True)
    assert find_root(committed / "projects/one") == committed / "projects/one"


def test_a_broken_git_directory_further_up_is_not_the_root(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "project").mkdir()
    assert find_root(tmp_path / "project") == (tmp_path / "project").resolve()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give it away")
def test_a_repository_of_another_user_further_up_is_not_the_root(committed: Path) -> None:
    (committed / "project").mkdir()
    for path in (committed, committed / ".git"):
        os.chown(path, 12345, 12345)
    assert find_root(committed / "project") == committed / "project"


def test_without_git_installed_a_directory_is_its_own_root(
    committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (committed / "a").mkdir()
    monkeypatch.setenv("PATH", "")
    assert find_root(committed / "a") == committed / "a"
    assert identify(committed).common_dir == committed / ".git"


def test_the_nearest_work_tree_wins_in_a_submodule(committed: Path, run_git: Git) -> None:
    run_git(committed / "inner", "init", "-q")
    (committed / "inner/deep").mkdir()
    assert find_root(committed / "inner/deep") == committed / "inner"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "cannot be read: No such file or directory"),
        (lambda path: path.write_text(""), "is a file; give the directory"),
        (lambda path: path.symlink_to(path), "cannot be read"),
    ],
    ids=["nothing", "a file", "a symlink to itself"],
)
def test_what_is_no_directory_is_refused(tmp_path: Path, make: Callable[[Path], object], words: str) -> None:
    make(tmp_path / "it")
    with pytest.raises(RepositoryError, match=words):
        find_root(tmp_path / "it")


def test_a_path_with_a_nul_is_refused() -> None:
    with pytest.raises(RepositoryError, match="cannot be read"):
        find_root("a\0b")


def test_a_bare_repository_is_refused_with_advice(tmp_path: Path, run_git: Git) -> None:
    run_git(tmp_path / "bare", "init", "-q", "--bare")
    with pytest.raises(RepositoryError, match="git worktree add"):
        find_root(tmp_path / "bare")


def test_identity_is_the_same_across_calls_and_spellings(committed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(committed, target_is_directory=True)
    first = identify(committed)
    assert first == identify(committed) == identify(tmp_path / "link")
    assert len(first.key) == 32
    assert first.root == committed
    assert first.common_dir == committed / ".git"


def test_a_worktree_shares_the_common_directory_but_not_the_key(
    committed: Path, tmp_path: Path, run_git: Git
) -> None:
    run_git(committed, "worktree", "add", "-q", str(tmp_path / "other"))
    main, other = identify(committed), identify(tmp_path / "other")
    assert main.common_dir == other.common_dir == committed / ".git"
    assert main.key != other.key
    assert other == identify(tmp_path / "other")


def test_a_submodule_has_an_identity_of_its_own(committed: Path, tmp_path: Path, run_git: Git) -> None:
    run_git(tmp_path / "library", "init", "-q")
    run_git(tmp_path / "library", "commit", "-q", "--allow-empty", "-m", "one")
    allow = ("-c", "protocol.file.allow=always")
    run_git(committed, *allow, "submodule", "--quiet", "add", (tmp_path / "library").as_posix(), "sub")
    assert identify(committed / "sub").common_dir == committed / ".git/modules/sub"
    assert find_root(committed / "sub") == committed / "sub"


@pytest.mark.parametrize("content", [b"", b"nonsense", b"gitdir: \0\xff", b"x" * 100_000])
def test_a_git_file_that_names_nothing_still_gives_an_identity(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert identify(tmp_path) == identify(tmp_path)


def test_a_directory_without_git_has_an_identity(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert identify(tmp_path / "a").common_dir is None
    assert identify(tmp_path / "a").key != identify(tmp_path / "b").key


def test_case_is_folded_on_a_file_system_that_ignores_it() -> None:
    def ignores(first: str, second: str) -> bool:
        return first.casefold() == second.casefold()

    assert normalise_case(Path("/Work/Repo"), ignores) == normalise_case(Path("/work/rEPO"), ignores)


def test_case_is_kept_on_a_file_system_that_tells_it_apart() -> None:
    assert normalise_case(Path("/Work/Repo"), lambda first, second: False) == str(Path("/Work/Repo"))


def test_case_is_folded_below_a_mount_point_only() -> None:
    def ignores_below_media(first: str, second: str) -> bool:
        below = os.path.join(os.sep, "Media", "")
        return first.startswith(below) and first.casefold() == second.casefold()

    folded = normalise_case(Path("/Media/Disk/Repo"), ignores_below_media)
    assert folded == str(Path("/Media/disk/repo"))


def test_case_is_probed_on_the_real_file_system(tmp_path: Path) -> None:
    (tmp_path / "Repo").mkdir()
    swapped = tmp_path / "rEPO"
    insensitive = swapped.exists()
    assert is_same_entry(str(tmp_path / "Repo"), str(swapped)) is insensitive
    assert (normalise_case(tmp_path / "Repo") == normalise_case(swapped)) is insensitive
