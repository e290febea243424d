package cache

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

type formatKey struct {
	version schema.GroupVersion
	media   codec.MediaType
	shape   Shape
}

// Format returns the format of a served version. YAML shares the bodies of JSON. It panics if the kind doesn't have the
// version.
func (c *Cache) Format(version schema.GroupVersion, media codec.MediaType, shape Shape) *Format {
	if media == codec.YAML {
		media = codec.JSON
	}
	f, ok := c.formats[formatKey{version, media, shape}]
	if !ok {
		panic(fmt.Sprintf("cache: %s is not served in %s as %s", c.kind.Name, version, media))
	}
	return f
}

func makeFormats(kind *api.Kind, budget *budget) map[formatKey]*Format {
	media, shapes := []codec.MediaType{codec.JSON, codec.Protobuf, codec.CBOR},
		[]Shape{Whole, Metadata, MetadataV1beta1}
	n := len(kind.Versions) * len(media) * len(shapes)
	formats, made := make(map[formatKey]*Format, n+len(kind.Versions)), make([]Format, 0, n)
	// of the hub's object, whatever the version
	line := &Format{of: kind, Media: codec.JSON, Shape: TableRow, budget: budget}
	for i := range kind.Versions {
		v := &kind.Versions[i]
		for _, media := range media {
			for _, shape := range shapes {
				gvk := v.WithKind(kind.Name)
				switch shape {
				case Metadata:
					gvk = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
				case MetadataV1beta1:
					gvk = metav1beta1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
				}
				made = append(made, Format{of: kind, Version: v, Media: media, Shape: shape, Kind: gvk, budget: budget})
				formats[formatKey{v.GroupVersion, media, shape}] = &made[len(made)-1]
			}
		}
		if kind.Custom == nil {
			formats[formatKey{v.GroupVersion, codec.JSON, TableRow}] = line
		}
	}
	return formats
}

// Encode encodes an object that is in no cache (the result of a dry run) as Entry.Encoded does. obj is a hub object.
func (f *Format) Encode(obj api.Object) ([]byte, error) { return f.encode(&Entry{Object: obj}) }

func (f *Format) encode(e *Entry) ([]byte, error) {
	if f.Shape == TableRow {
		return f.line(e.Object)
	}
	obj := e.Object
	if f.Shape == Whole || f.Version.Coerce != nil { // the metadata of custom resources may differ by version
		var err error
		if obj, err = e.In(f.of, f.Version); err != nil {
			return nil, err
		}
	}
	if f.Shape != Whole {
		return codec.Body(f.of.Metadata(obj), f.Kind, f.Media)
	}
	return codec.Body(obj, f.Kind, f.Media)
}

func (f *Format) line(obj api.Object) ([]byte, error) {
	var conditions []metav1.TableRowCondition
	if f.of.RowConditions != nil {
		conditions = f.of.RowConditions(obj)
	}
	return codec.NewTableRow(f.of.Row(obj), conditions)
}
