import os
import sys

import pytest

from hc_ray.domain import credentials
from tests.fakes.processes import ran

SECRETS = {"OPENAI_API_KEY": "sk-canary-0123456789", "HF_TOKEN": "hf_canary0123456789",
           "AWS_SECRET_ACCESS_KEY": "/abc+canary0123456789", "ANTHROPIC_API_KEY": "sk-ant-canary",
           "DB_PASSWORD": "canary-pass", "DATABASE_URL": "postgres://user:canary-db-password@host/db"}  # fmt: skip
PLAIN = {"PATH": "/usr/bin", "HOME": "/root", "SSH_AUTH_SOCK": "/tmp/agent.1", "RAY_AUTH_MODE": "token",
         "RAY_AUTH_TOKEN_PATH": "/x/keys/ray_token", "KEYBOARD": "us", "AWS_REGION": "eu-west-1"}  # fmt: skip


def test_names_that_hold_a_word_for_a_secret_are_secret_and_those_of_places_are_not():
    names = ["OPENAI_API_KEY", "apiKey", "x-auth-token", "HF_TOKEN", "DB_PASSWORD", "AWS_SECRET"]
    assert [name for name in (*names, *PLAIN) if credentials.is_secret_name(name)] == names


def test_secret_values_and_passwords_are_known_to_the_environment_and_left_out_of_what_is_handed_on(monkeypatch):
    monkeypatch.setattr(os, "environ", {**SECRETS, **PLAIN})
    assert set(credentials.secret_values()) == {*list(SECRETS.values())[:5], "canary-db-password"}
    assert credentials.without_secrets() == {**PLAIN, "DATABASE_URL": "postgres://host/db"}
    monkeypatch.setattr(os, "environ", {"MY_THING": "0123456789"})
    assert credentials.secret_values(named=["MY_THING"]) == ("0123456789",)


def test_texts_lose_their_secrets_and_a_url_without_one_may_stand_in_a_config(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS["OPENAI_API_KEY"])
    text = (
        "no key sk-canary-0123456789 at http://me:pass@host/v1?api_key=0123&x=1 with Bearer abcdefgh12345, basic things"
    )
    said = "no key *** at http://***@host/v1?api_key=***&x=1 with Bearer ***, basic things"
    assert credentials.scrub(text) == said
    for url in ("http://127.0.0.1:11434/v1", "https://host/v1?version=3", "s3://bucket/runs?region=eu", "/a/path",
                "sqlite:////x/mlflow.db", "abfs://container@account.dfs.core.windows.net/runs", "none"):  # fmt: skip
        assert credentials.url_fault(url) is None


@pytest.mark.parametrize("url", ["http://user:password@host/v1", "https://hf_token0123456@host/v1",
                                 "https://host/v1?api_key=0123", "https://host/v1?x=1&X-Auth-Token=0123",
                                 "s3://KEY:SECRET@bucket/runs", "s3://bucket/runs?secret_key=abc"])  # fmt: skip
def test_a_url_with_a_secret_may_not_stand_in_a_config_and_the_answer_does_not_repeat_it(url):
    fault = credentials.url_fault(url)
    assert fault and not any(part in fault for part in ("password@", "hf_token", "0123", "SECRET", "abc"))


def test_a_process_that_forgot_its_secrets_hands_none_on():
    script = (
        "import os, subprocess; from hc_ray.domain.credentials import forget_secrets; forget_secrets(); "
        "print(subprocess.run(['env'], capture_output=True, text=True).stdout)"
    )
    said = ran(sys.executable, "-c", script, env={**os.environ, **SECRETS}, check=True).stdout
    assert "PATH=" in said and "canary" not in said
