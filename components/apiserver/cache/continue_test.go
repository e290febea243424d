package cache

import (
	"encoding/base64"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestContinueTokens(t *testing.T) {
	const prefix = "/registry/pods/"
	// This token is one of upstream's.
	token, err := decodeContinue(base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":42,"start":"a/x\u0000"}`)), prefix)
	if err != nil || token.revision != 42 || token.from != prefix+"a/x\x00" {
		t.Fatalf("got %+v, %v", token, err)
	}
	if got := encodeContinue(token.from, prefix, 42); got != base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":42,"start":"a/x\u0000"}`)) {
		t.Errorf("encoded as %s", got)
	}
	for _, bad := range []string{
		"?", "e30", base64.RawURLEncoding.EncodeToString([]byte("x")),
		encodeContinue("", "", 1), encodeContinue("a", "", 0), encodeContinue("../secrets/x", "", 1), encodeContinue("a/../../x", "", 1),
		base64.RawURLEncoding.EncodeToString([]byte(`{"v":"v9","rv":42,"start":"a"}`)),
	} {
		if _, err := decodeContinue(bad, prefix); !apierrors.IsBadRequest(err) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzContinue(f *testing.F) {
	for _, start := range []string{"a/x\x00", "../x", "/", "a//b", "."} {
		f.Add(encodeContinue(start, "", 7))
	}
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		const prefix = "/registry/pods/a/"
		token, err := decodeContinue(s, prefix)
		if err != nil {
			return
		}
		if !strings.HasPrefix(token.from, prefix) || token.revision == 0 || strings.Contains(token.from, "/../") {
			t.Fatalf("%q leads to %+v", s, token)
		}
		again, err := decodeContinue(encodeContinue(token.from, prefix, token.revision), prefix)
		if err != nil || again != token {
			t.Fatalf("%q: %+v came back as %+v, %v", s, token, again, err)
		}
	})
}
