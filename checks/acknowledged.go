package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Acknowledged are the writes that an API server acknowledged to recorded clients, of objects that these did not
// delete. The zero value is ready; it is safe for concurrent use.
type Acknowledged struct {
	mu      sync.Mutex
	objects map[string]*acknowledged // by path
}

// acknowledged is the last acknowledged write of an object.
type acknowledged struct {
	version int64
	uid     types.UID
	deletes int // that were sent
	pending int // deletes that have no answer, or none that says what they did
}

// Record returns a configuration with which clients make requests whose acknowledged writes are noted. Other clients
// may write the objects too, but not delete them.
func (a *Acknowledged) Record(config *rest.Config) *rest.Config {
	return record(config, func(r recorded) func(Response, recorded) {
		switch r.Verb {
		case Get:
			return func(Response, recorded) {}
		case Delete:
			return a.delete(r.path)
		}
		deletes := a.deletes(r.path)
		return func(answer Response, r recorded) {
			if answer.Outcome == Done && answer.Version != 0 {
				a.wrote(r, answer, deletes)
			}
		}
	})
}

// of returns what is known of an object. The lock is held.
func (a *Acknowledged) of(object string) *acknowledged {
	if a.objects == nil {
		a.objects = map[string]*acknowledged{}
	}
	if a.objects[object] == nil {
		a.objects[object] = &acknowledged{}
	}
	return a.objects[object]
}

func (a *Acknowledged) deletes(object string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.objects[object]; known != nil {
		return known.deletes
	}
	return 0
}

// delete forgets an object. Writes that are sent before the delete is answered are not noted.
func (a *Acknowledged) delete(object string) func(Response, recorded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of(object)
	known.version, known.deletes, known.pending = 0, known.deletes+1, known.pending+1
	return func(answer Response, _ recorded) {
		if answer.Outcome == Unknown || answer.MayBeGone {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		known.deletes++
		known.pending--
	}
}

// wrote notes a write that was sent after a number of deletes.
func (a *Acknowledged) wrote(r recorded, answer Response, deletes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of(r.path)
	switch {
	case known.pending > 0 || known.deletes != deletes || answer.MayBeGone:
		known.version = 0
	case answer.Version > known.version:
		known.version, known.uid = answer.Version, r.uid
	}
}

// Len is the number of objects whose writes are checked.
func (a *Acknowledged) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := 0
	for _, known := range a.objects {
		if known.version > 0 {
			count++
		}
	}
	return count
}

// checked are the objects that must be there. The lock is held.
func (a *Acknowledged) checked() map[string]acknowledged {
	out := map[string]acknowledged{}
	for object, known := range a.objects {
		if known.version > 0 {
			out[object] = *known
		}
	}
	return out
}

// Lost lists the objects and returns which acknowledged writes are not there: of objects that are gone, are others of
// their name, or are older. It fails with the first list that fails.
func (a *Acknowledged) Lost(ctx context.Context, config *rest.Config) ([]error, error) {
	client, err := readerOf(config)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	all := a.checked()
	a.mu.Unlock()
	found := map[string]metav1.PartialObjectMetadata{}
	var lost []error
	last := ""
	for _, object := range slices.Sorted(maps.Keys(all)) {
		if collection := path.Dir(object); collection != last {
			last = collection
			if err := list(ctx, client, collection, found); err != nil {
				return lost, fmt.Errorf("list %s: %w", collection, err)
			}
		}
		there := found[object]
		if err := all[object].lost(object, &there); err != nil {
			lost = append(lost, err)
		}
	}
	return lost, nil
}

// list adds the objects of a collection to those that were found, by path. What is in no collection is not there.
func list(ctx context.Context, client *rest.RESTClient, collection string,
	found map[string]metav1.PartialObjectMetadata) error {
	body, err := client.Get().AbsPath(collection).SetHeader("Accept",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(ctx)
	if apierrors.IsNotFound(err) { // its definition is gone
		return nil
	}
	if err != nil {
		return err
	}
	var items metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &items); err != nil {
		return err
	}
	for _, item := range items.Items {
		found[path.Join(collection, item.Name)] = item
	}
	return nil
}

// lost compares an object with its last acknowledged write; an empty object is none.
func (k acknowledged) lost(object string, found metav1.Object) error {
	switch version, err := versionOf(found); {
	case found.GetUID() == "":
		return fmt.Errorf("%s is gone: a write was acknowledged at %d", object, k.version)
	case err != nil:
		return err
	case found.GetUID() != k.uid:
		return fmt.Errorf("%s is another one at %d: a write was acknowledged at %d", object, version, k.version)
	case version < k.version:
		return fmt.Errorf("%s is at %d: a write was acknowledged at %d", object, version, k.version)
	}
	return nil
}

// readerOf returns a client that reads JSON at any path.
func readerOf(config *rest.Config) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.ContentConfig = rest.ContentConfig{ContentType: "application/json", GroupVersion: &schema.GroupVersion{},
		NegotiatedSerializer: scheme.Codecs.WithoutConversion()}
	return rest.UnversionedRESTClientFor(config)
}
