"""What the product says it cannot do yet is what is known to be missing, and nothing else."""
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PRODUCT = ("include", "poptorch", "aspen", "apps")
PHRASES = r"not (?:yet )?supported yet|not (?:yet )?implemented|unimplemented"
# Whole subjects that are missing: several processes.
MISSING = (r"Training in \{\} processes",)
# The place that makes such a message, and how it is called.
MAKERS = {"poptorch/api/compile_settings.cpp": r"(?<!void )\brefuse\((?:fmt::format\()?\"([^\"]*)"}


def sources():
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cpp", ".h") and not path.stem.endswith("_test"):
                yield path


def test_nothing_is_said_to_be_missing_elsewhere():
    found = {str(path.relative_to(ROOT)) for path in sources()
             if re.search(PHRASES, path.read_text(encoding="utf-8"), re.IGNORECASE)}
    assert found == set(MAKERS)


def test_only_what_is_known_to_be_missing_is_refused():
    for place, call in MAKERS.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        assert len(re.findall(PHRASES, text)) == 1, f"{place} says it in more than one place"
        subjects = re.findall(call, text)
        assert subjects, f"{place} refuses nothing: this test does not see its calls any more"
        for subject in subjects:
            assert re.match("|".join(MISSING), subject), f"{place} refuses {subject}"
