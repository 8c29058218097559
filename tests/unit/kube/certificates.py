"""Certificates such as older authorities issue: without an Authority Key Identifier.

Made once, with `openssl ca` and these extensions, for Python alone cannot make any:

    subjectAltName=DNS:localhost
    authorityKeyIdentifier=none
    subjectKeyIdentifier=none
"""

from __future__ import annotations

#: The authority that signed the others; valid until 2120.
AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBgjCCASigAwIBAgIUMEBOhOpS7wMP9qWkq7JlIVoTy0UwCgYIKoZIzj0EAwIw
HjEcMBoGA1UEAwwTb2xkLXN0eWxlIGF1dGhvcml0eTAgFw0yMDAxMDEwMDAwMDBa
GA8yMTIwMDEwMTAwMDAwMFowHjEcMBoGA1UEAwwTb2xkLXN0eWxlIGF1dGhvcml0
eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGXP4lIZLHm0R6jADCPmto8e32YA
dl3woTIxtDYZsXAKHzrPuyu07xOjnJ/Z/Ol9WX2ZlsOgIi6K9Qdf1dwSDeujQjBA
MA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIEMB0GA1UdDgQWBBTD6w5y
kzkm/GebZr9CFk5kaFNdGTAKBggqhkjOPQQDAgNIADBFAiEA3VGIbIuAPd+rcht1
IYv7UvSxWGjKMKt6dAANOn8FrtsCIGhznTGEATevWm2RkQDhaoG2W/SEfXljlkPB
w7JEO0tZ
-----END CERTIFICATE-----
"""

#: Of a server `localhost`; valid until 2120.
LOCALHOST = """\
-----BEGIN CERTIFICATE-----
MIIBRjCB7qADAgECAhQy5qltiIKS9WlUPbfmn0+VXcX//jAKBggqhkjOPQQDAjAe
MRwwGgYDVQQDDBNvbGQtc3R5bGUgYXV0aG9yaXR5MCAXDTIwMDEwMTAwMDAwMFoY
DzIxMjAwMTAxMDAwMDAwWjAOMQwwCgYDVQQDDANhcGkwWTATBgcqhkjOPQIBBggq
hkjOPQMBBwNCAAS+pyWrtcDRicKzkXsMxERQQffMM/+Jzgj7NdygMEZK4qhYHhyB
XRaWd6Wzt8hrrP94ZIgoqxwpn7O44qaMGLisoxgwFjAUBgNVHREEDTALgglsb2Nh
bGhvc3QwCgYIKoZIzj0EAwIDRwAwRAIgafcgkn67P4PW6pXpAvs9MIslUbPtG0kK
HoTjr3967PMCIB1hnc1pYxbRTsBR9+QOQvGSCXDoKSEX478I5vMm+3PU
-----END CERTIFICATE-----
"""

#: The same, but it was valid for a day in 2020.
EXPIRED = """\
-----BEGIN CERTIFICATE-----
MIIBRjCB7KADAgECAhQmUisSYEMiCCmtrdZy10UGtYn5DzAKBggqhkjOPQQDAjAe
MRwwGgYDVQQDDBNvbGQtc3R5bGUgYXV0aG9yaXR5MB4XDTIwMDEwMTAwMDAwMFoX
DTIwMDEwMjAwMDAwMFowDjEMMAoGA1UEAwwDYXBpMFkwEwYHKoZIzj0CAQYIKoZI
zj0DAQcDQgAEvqclq7XA0YnCs5F7DMREUEH3zDP/ic4I+zXcoDBGSuKoWB4cgV0W
lnels7fIa6z/eGSIKKscKZ+zuOKmjBi4rKMYMBYwFAYDVR0RBA0wC4IJbG9jYWxo
b3N0MAoGCCqGSM49BAMCA0kAMEYCIQCt3edchOy2/ldAiLb2zwv8RTZMkxwkqmdA
teCh/UULHQIhAL75FuzwFZFN7XTaGJx7ouFH0z0GAp/0vDQM3QhwJ9fp
-----END CERTIFICATE-----
"""

#: Of both.
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgE41VccQxX3RlEd2g
6q1+HCxZ74IXANh3qDlBirgl3xOhRANCAAS+pyWrtcDRicKzkXsMxERQQffMM/+J
zgj7NdygMEZK4qhYHhyBXRaWd6Wzt8hrrP94ZIgoqxwpn7O44qaMGLis
-----END PRIVATE KEY-----
"""
