package handlers

import (
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
)

// forms are the media types that the API reads and writes.
type forms struct {
	media, custom          []codec.MediaType // of objects: of the kinds of the program, and of custom resources
	objects, acceptable    []string          // media by name, and what an Accept header may say
	patches, customPatches []string
}

func newForms(cbor bool) forms {
	f := forms{
		media:      negotiate.Formats(cbor),
		custom:     []codec.MediaType{codec.JSON, codec.YAML},
		acceptable: []string{"*/*"},
		patches: []string{string(types.JSONPatchType), string(types.MergePatchType),
			string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType)},
		customPatches: []string{string(types.JSONPatchType), string(types.MergePatchType),
			string(types.ApplyYAMLPatchType)},
	}
	if cbor {
		f.custom = append(f.custom, codec.CBOR)
		f.patches = append(f.patches, string(types.ApplyCBORPatchType))
		f.customPatches = append(f.customPatches, string(types.ApplyCBORPatchType))
	}
	for _, m := range f.media {
		f.objects = append(f.objects, m.String())
	}
	f.acceptable = append(f.acceptable, f.objects...)
	return f
}
