"""What text of a request has to look like, and how that is said to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# `(?!\n)` because Python's `$` also matches before a last line break.
NO_NUL: Final = r"^[^\x00]*$(?!\n)"
#: Text of any lines.
NO_NUL_LINES: Final = r"^[^\x00]*$"
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)"
CLASS: Final = r"^[A-Za-z][A-Za-z0-9._-]*$(?!\n)"
# Characters that a reader does not see, but that change what they see: controls of terminals, and of the
# direction of writing. With those that join letters, which some scripts need, and blanks alone there is
# nothing to see.
_HIDDEN: Final = r"\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
_BLANK: Final = (
    r" \xa0\xad\u115f\u1160\u1680\u180e\u2000-\u200a\u200c\u200d\u202f\u205f\u2800\u3000\u3164\uffa0"
)
LINE: Final = rf"^[{_BLANK}]*[^{_HIDDEN}{_BLANK}][^{_HIDDEN}]*$(?!\n)"
VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)"
LABEL: Final = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$(?!\n)"
DURATION: Final = r"^(?=[0-9])([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$(?!\n)"
IDEMPOTENCY_KEY: Final = r"^[!-~ ]+$"
MEMBER_CURSOR: Final = r"^[0-9]{1,9}$"
EVENT_CURSOR: Final = r"^[0-9]{1,18}$"
GROUP_ID: Final = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$(?!\n)"
RECEIPT_CURSOR: Final = r"^[0-9]{1,17}\.[0-9]{1,18}\.[0-9]{1,9}$"

_NO_NUL_TOLD = "Must not contain the character U+0000."
_CURSOR_TOLD = "Must be a cursor that an earlier page gave."

#: Every pattern of a request, in a sentence for those who broke it.
TOLD: Mapping[str, str] = {
    NO_NUL: _NO_NUL_TOLD,
    NO_NUL_LINES: _NO_NUL_TOLD,
    NAME: "Only letters, digits and . _ - may be in it, and a letter or a digit is first.",
    CLASS: "Only letters, digits and . _ - may be in it, and a letter is first.",
    LINE: "Must be one line of text that can be seen, without tabs, other control characters and marks of the"
    " direction of writing.",
    VARIABLE: "A variable's name is of letters, digits and _, and no digit is first.",
    LABEL: "A label's name is of letters, digits and . _ / -, and a letter or a digit is first.",
    DURATION: "Write 90s, 10m, 4h, 1h30m or 2d, or a number of seconds.",
    IDEMPOTENCY_KEY: "Only printable ASCII characters may be in it.",
    MEMBER_CURSOR: _CURSOR_TOLD,
    EVENT_CURSOR: _CURSOR_TOLD,
    RECEIPT_CURSOR: _CURSOR_TOLD,
    GROUP_ID: "Must be the id of a group.",
}
