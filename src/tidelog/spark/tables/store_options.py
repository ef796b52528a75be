"""How to get into a store: options with the names that the environment has for them.

An option that is given counts more than the environment, and that more than a profile in the files
of AWS. What is found on the driver goes to the tasks. What is not found is left to the libraries,
each on its own machine: they know the roles of instances and pods.

Some of the values are secrets. No message and no `repr` has a value.
"""

import configparser
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.spark.failure import InvalidOption

S3: Final = "s3"
GCS: Final = "gs"
AZURE: Final = "abfss"


class Name(NamedTuple):
    """What pyarrow and pyiceberg call an option; delta-rs takes the names of the environment."""

    arrow: str | None = None
    iceberg: str | None = None


NAMES: Final[Mapping[str, Mapping[str, Name]]] = {
    S3: {
        "AWS_ACCESS_KEY_ID": Name("access_key", "s3.access-key-id"),
        "AWS_SECRET_ACCESS_KEY": Name("secret_key", "s3.secret-access-key"),
        "AWS_SESSION_TOKEN": Name("session_token", "s3.session-token"),
        "AWS_REGION": Name("region", "s3.region"),
        "AWS_ENDPOINT_URL": Name("endpoint_override", "s3.endpoint"),
        "AWS_PROFILE": Name(),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": Name(
            "force_virtual_addressing", "s3.force-virtual-addressing"
        ),
        # How delta-rs keeps two drivers apart, where a store has no conditional PUT.
        "AWS_CONDITIONAL_PUT": Name(),
        "AWS_S3_LOCKING_PROVIDER": Name(),
        "DELTA_DYNAMO_TABLE_NAME": Name(),
    },
    GCS: {
        # A file; pyarrow and pyiceberg find it in the environment alone.
        "GOOGLE_APPLICATION_CREDENTIALS": Name(),
        "STORAGE_EMULATOR_HOST": Name("endpoint_override", "gcs.service.host"),
    },
    AZURE: {
        "AZURE_STORAGE_ACCOUNT_NAME": Name("account_name"),
        "AZURE_STORAGE_ACCOUNT_KEY": Name("account_key"),
        "AZURE_STORAGE_SAS_TOKEN": Name("sas_token"),
        "AZURE_CLIENT_ID": Name("client_id"),
        "AZURE_CLIENT_SECRET": Name("client_secret"),
        "AZURE_TENANT_ID": Name("tenant_id"),
        "AZURE_STORAGE_ENDPOINT": Name(),
    },
}
OTHER_NAMES: Final = {
    "AWS_DEFAULT_REGION": "AWS_REGION",
    "AWS_ENDPOINT_URL_S3": "AWS_ENDPOINT_URL",
    "AZURE_STORAGE_ACCOUNT": "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_KEY": "AZURE_STORAGE_ACCOUNT_KEY",
}
"""Said by others for the same."""
SECRETS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_SECRET",
)
HIDDEN: Final = "***"
_OF_PROFILES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
)


class StoreOptions(NamedTuple):
    """Goes to tasks; shows names, never values."""

    given: tuple[tuple[str, str], ...] = ()

    @property
    def values(self) -> dict[str, str]:
        return dict(self.given)

    def without_secrets(self, text: str) -> str:
        """What a library said, which may have put one into its words."""
        for name, value in self.given:
            if name in SECRETS and value:
                text = text.replace(value, HIDDEN)
        return text

    def __repr__(self) -> str:
        return f"StoreOptions({', '.join(name for name, _ in self.given)})"


NO_OPTIONS: Final = StoreOptions()


def store_options(
    scheme: str, given: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> StoreOptions:
    """All that is known of a store of this scheme; InvalidOption names what is not known."""
    known = NAMES.get(scheme, {})
    wanted = {_checked(name, scheme): value for name, value in given.items()}
    around = {
        each: environ[name]
        for name in (*OTHER_NAMES, *known)
        if environ.get(name) and (each := OTHER_NAMES.get(name, name)) in known
    }
    if "AWS_ACCESS_KEY_ID" in wanted or "AWS_PROFILE" in wanted:
        # Half of one login and half of another would be neither.
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            around.pop(name, None)
    found = {**around, **wanted}
    if scheme == S3:
        found = _with_profile(found, environ, asked="AWS_PROFILE" in wanted)
    return StoreOptions(tuple(sorted(found.items())))


def _checked(name: str, scheme: str) -> str:
    upper = name.strip().upper()
    known = {**NAMES.get(scheme, {}), **OTHER_NAMES}
    if upper in known and OTHER_NAMES.get(upper, upper) in NAMES.get(scheme, {}):
        return OTHER_NAMES.get(upper, upper)
    if not NAMES.get(scheme):
        raise InvalidOption(f"a local table has no store option {name}", "leave it out")
    near = get_close_matches(upper, NAMES[scheme], n=1, cutoff=0.6)
    advice = f"did you mean {near[0]}?" if near else f"one of {', '.join(NAMES[scheme])}"
    raise InvalidOption(f"{scheme}:// has no store option {name}", advice)


def _with_profile(
    found: dict[str, str], environ: Mapping[str, str], *, asked: bool
) -> dict[str, str]:
    """With the keys of a profile, if there are none nearer. A profile without keys stands for a
    role or a login, which the libraries know how to get, if the environment names it."""
    profile = found.pop("AWS_PROFILE", None)
    if "AWS_ACCESS_KEY_ID" in found:
        return found
    kept = _profile(profile or "default", environ)
    if asked and "AWS_ACCESS_KEY_ID" not in kept:
        raise InvalidOption(
            f"the profile {profile} has no keys in the files of AWS",
            "if it is a role or a login, set AWS_PROFILE in the environment of all machines",
        )
    return {**kept, **found}


def _profile(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    home = Path(environ.get("HOME", "~")).expanduser() / ".aws"
    keys = environ.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / "credentials")
    config = environ.get("AWS_CONFIG_FILE") or str(home / "config")
    found: dict[str, str] = {}
    for path, section in ((config, "default" if name == "default" else f"profile {name}"),
                          (keys, name)):  # fmt: skip
        parser = configparser.ConfigParser(interpolation=None, default_section="")
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            raise InvalidOption(f"{path} cannot be read", "it is a file of AWS profiles") from None
        if parser.has_section(section):
            for key, value in parser.items(section):
                option = "AWS_REGION" if key == "region" else key.upper()
                option = "AWS_ENDPOINT_URL" if key == "endpoint_url" else option
                if option in _OF_PROFILES:
                    found[option] = value
    return found
