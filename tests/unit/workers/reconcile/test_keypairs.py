"""Key pairs are what ssh expects, and never the same twice."""

import base64

from cryptography.hazmat.primitives import serialization

from workers.reconcile import keypairs


def test_a_key_pair_is_2048_bits_of_rsa_and_its_halves_belong_together():
    made = keypairs.make()
    private = serialization.load_pem_private_key(made["id_rsa"].encode(), None)
    public = serialization.load_ssh_public_key(made["id_rsa.pub"].encode())
    assert private.key_size == 2048
    assert private.public_key().public_numbers() == public.public_numbers()
    assert made["id_rsa"].splitlines()[0] == "-----BEGIN RSA PRIVATE KEY-----", "PKCS#1"
    assert made["authorized_keys"] == made["id_rsa.pub"]
    kind, blob = made["id_rsa.pub"].split()
    assert (kind, base64.b64decode(blob)[4:11]) == ("ssh-rsa", b"ssh-rsa")


def test_no_two_are_alike():
    assert keypairs.make()["id_rsa"] != keypairs.make()["id_rsa"]
