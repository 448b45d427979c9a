import os
import subprocess
import sys

import pytest

from hc_ray.domain import credentials

SECRETS = {
    "OPENAI_API_KEY": "sk-canary-0123456789",
    "HF_TOKEN": "hf_canary0123456789",
    "AWS_SECRET_ACCESS_KEY": "/abc+canary0123456789",
    "ANTHROPIC_API_KEY": "sk-ant-canary",
    "DB_PASSWORD": "canary-pass",
    "DATABASE_URL": "postgres://user:canary-db-password@host/db",
}
PLAIN = {
    "PATH": "/usr/bin",
    "HOME": "/root",
    "SSH_AUTH_SOCK": "/tmp/agent.1",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN_PATH": "/x/keys/ray_token",
    "KEYBOARD": "us",
    "AWS_REGION": "eu-west-1",
}


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "apiKey", "x-auth-token", "HF_TOKEN", "DB_PASSWORD", "AWS_SECRET"])
def test_names_that_hold_a_word_for_a_secret_are_secret(name: str) -> None:
    assert credentials.is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN)
def test_other_names_and_those_of_places_are_not(name: str) -> None:
    assert not credentials.is_secret_name(name)


def test_every_secret_value_and_password_of_an_environment_is_known_and_nothing_else() -> None:
    values = set(credentials.secret_values({**SECRETS, **PLAIN}))
    assert values == {*list(SECRETS.values())[:5], "canary-db-password"}


def test_a_name_that_the_config_calls_a_key_is_secret_whatever_it_is_called() -> None:
    assert credentials.secret_values({"MY_THING": "0123456789"}, named=["MY_THING"]) == ("0123456789",)


def test_an_environment_without_secrets_keeps_the_rest_and_urls_without_their_user() -> None:
    kept = credentials.without_secrets({**SECRETS, **PLAIN})
    assert kept == {**PLAIN, "DATABASE_URL": "postgres://host/db"}


def test_texts_lose_values_passwords_of_urls_keys_of_queries_and_bearer_tokens() -> None:
    text = (
        "no such key sk-canary-0123456789 at http://me:pass@host/v1?api_key=0123&x=1 with Bearer abcdefgh12345, "
        "basic things stay"
    )
    assert credentials.scrub(text, ["sk-canary-0123456789"]) == (
        "no such key *** at http://***@host/v1?api_key=***&x=1 with Bearer ***, basic things stay"
    )


@pytest.mark.parametrize("url", [
    "http://user:password@host/v1",
    "https://hf_token0123456@host/v1",
    "https://host/v1?api_key=0123",
    "https://host/v1?x=1&X-Auth-Token=0123",
    "s3://KEY:SECRET@bucket/runs",
    "s3://bucket/runs?secret_key=abc",
])  # fmt: skip
def test_a_url_with_a_secret_may_not_stand_in_a_config_and_the_answer_does_not_repeat_it(url: str) -> None:
    fault = credentials.url_fault(url)
    assert fault is not None
    assert not any(part in fault for part in ("password@", "hf_token", "0123", "SECRET", "abc"))


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:11434/v1", "https://host/v1?version=3", "s3://bucket/runs?region=eu", "sqlite:////x/mlflow.db",
     "abfs://container@account.dfs.core.windows.net/runs", "/a/path", "none"],
)  # fmt: skip
def test_a_url_without_one_may(url: str) -> None:
    assert credentials.url_fault(url) is None


def test_a_process_that_forgot_its_secrets_hands_none_on() -> None:
    script = (
        "import os, subprocess; from hc_ray.domain.credentials import forget_secrets; forget_secrets(); "
        "print(subprocess.run(['env'], capture_output=True, text=True).stdout)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **SECRETS}, capture_output=True, text=True, check=True
    ).stdout
    assert "PATH=" in said and not any(value in said for value in credentials.secret_values(SECRETS))
