package codec

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestZippedListsAreTheSame compares with the list that is written plainly, however it is cut into runs.
func TestZippedListsAreTheSame(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 20 {
		pods = append(pods, pod("p"+string(rune('a'+i))))
	}
	for _, m := range []MediaType{JSON, Protobuf} {
		for _, size := range []int{1, 3, 20, 100} {
			l := List{Kind: podListKind, Item: podKind, Meta: metav1.ListMeta{ResourceVersion: "7"},
				Items: bodies(pods, m), Free: size == 3}
			var want, zipped bytes.Buffer
			if err := WriteList(&want, m, l); err != nil {
				t.Fatal(err)
			}
			var runs []*Segment
			for from := 0; from < len(pods); from += size {
				var run [][]byte
				for body := range bodies(pods[from:min(from+size, len(pods))], m) {
					run = append(run, body)
				}
				s := ItemSegment(m, l, run)
				runs = append(runs, &s)
			}
			if err := WriteZippedList(&zipped, m, l, runs); err != nil {
				t.Fatal(err)
			}
			r, err := gzip.NewReader(&zipped)
			if err != nil {
				t.Fatal(err)
			}
			r.Multistream(false)
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, want.Bytes()) || zipped.Len() > 0 {
				t.Errorf("%s in runs of %d: got %q and %d bytes more, want %q: %v", m, size, got, zipped.Len(),
					want.Bytes(), err)
			}
		}
	}
}

func TestCombineCRC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		text := make([]byte, r.IntN(5000))
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		cut := r.IntN(len(text) + 1)
		first, second := crc32.ChecksumIEEE(text[:cut]), crc32.ChecksumIEEE(text[cut:])
		if got := combineCRC(first, second, int64(len(text)-cut)); got != crc32.ChecksumIEEE(text) {
			t.Fatalf("%d bytes cut at %d: got %x", len(text), cut, got)
		}
	}
}
