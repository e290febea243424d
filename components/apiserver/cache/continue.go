package cache

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apistorage "k8s.io/apiserver/pkg/storage"
)

// token is a continue token: where a list goes on, and at which revision.
type token struct {
	from     string // whole key
	revision int64  // negative: whatever is newest
}

// decodeContinue reads a token, which leads nowhere but below prefix.
func decodeContinue(s, prefix string) (token, error) {
	from, revision, err := apistorage.DecodeContinue(s, prefix)
	if err != nil {
		return token{}, apierrors.NewBadRequest("invalid continue token: " + err.Error())
	}
	return token{from, revision}, nil
}

// encodeContinue makes the token for a list below prefix to go on at key. Its form is upstream's, so that a list may
// begin at one API server and end at another: what is read from a cache has a slash before the names, and what is read
// from the store has none.
func encodeContinue(key, prefix string, cached bool, revision int64) string {
	if cached {
		prefix = strings.TrimSuffix(prefix, "/")
	}
	token, err := apistorage.EncodeContinue(key, prefix, revision)
	if err != nil {
		panic("cache: " + err.Error()) // the key is below the prefix
	}
	return token
}

// errContinueExpired carries a token with which the rest of the list can be had, though not consistently.
func errContinueExpired(from, prefix string) error {
	err := apierrors.NewResourceExpired(
		"The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
			"the " +
			"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were " +
			"created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	err.ErrStatus.ListMeta.Continue = encodeContinue(from, prefix, false, -1)
	return err
}
