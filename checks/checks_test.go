package checks

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func object(uid string, version int) metav1.Object {
	return &metav1.ObjectMeta{Name: uid, Namespace: "shop", UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}
}

// told checks an error: none where want is empty, else one with these words.
func told(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestEqual(t *testing.T) {
	list := []metav1.Object{object("a", 1), object("b", 2)}
	told(t, Equal([]metav1.Object{object("b", 2), object("a", 1)}, list), "")
	told(t, Equal(list[:1], list), "lacks shop/b")
	told(t, Equal([]metav1.Object{object("a", 1), object("b", 1)}, list), "shop/b at 1, the list at 2")
	told(t, Equal(append(list[:2:2], object("c", 3)), list), "shop/c at 3, which is gone")
}
