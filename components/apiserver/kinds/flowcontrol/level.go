package flowcontrol

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta1 "k8s.io/api/flowcontrol/v1beta1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var priorityLevelParts = api.Parts[*flowcontrolv1.PriorityLevelConfiguration,
	flowcontrolv1.PriorityLevelConfigurationSpec, flowcontrolv1.PriorityLevelConfigurationStatus]{
	Spec: func(l *flowcontrolv1.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfigurationSpec {
		return &l.Spec
	},
	Status: func(l *flowcontrolv1.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfigurationStatus {
		return &l.Status
	},
}

func priorityLevels() *api.Kind {
	return api.Define(api.Row[*flowcontrolv1.PriorityLevelConfiguration]{
		Name: "PriorityLevelConfiguration", Resource: "prioritylevelconfigurations", Cluster: true,
		Hub:     flowcontrolv1.SchemeGroupVersion,
		Default: DefaultLevel,
		RemovedVersions: []api.Version{
			api.RemovedVersion(flowcontrolv1beta3.SchemeGroupVersion, LevelFromV1beta3, DefaultLevel),
			api.RemovedVersion(flowcontrolv1beta2.SchemeGroupVersion, LevelFromV1beta2, DefaultLevel),
			api.RemovedLike[*flowcontrolv1beta1.PriorityLevelConfiguration](flowcontrolv1beta1.SchemeGroupVersion,
				LevelFromV1beta2, DefaultLevel),
		},
		Strategy: api.Strategy[*flowcontrolv1.PriorityLevelConfiguration]{
			Meta:                api.MetaObjects,
			PrepareCreate:       priorityLevelParts.Create,
			PrepareUpdate:       priorityLevelParts.Update,
			Validate:            api.OfObject(ValidateLevel),
			ValidateUpdate:      api.OfChange(api.IgnoreOld(ValidateLevel)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*flowcontrolv1.PriorityLevelConfiguration]{
			Meta:          api.MetaNothing,
			PrepareUpdate: priorityLevelParts.StatusUpdateAlone,
			ValidateUpdate: func(_ context.Context, new, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
				return ValidateLevelStatus(&new.Status)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns: LevelColumns(),
		Row:     LevelRow,
	})
}

// Defaults of priority levels.
const (
	shares      = 30
	queues      = 64
	handSize    = 8
	queueLength = 50
)

// DefaultLevel sets the defaults of a priority level.
func DefaultLevel(l *flowcontrolv1.PriorityLevelConfiguration) {
	if e := l.Spec.Exempt; e != nil {
		setDefault(&e.NominalConcurrencyShares, 0)
		setDefault(&e.LendablePercent, 0)
	}
	if limited := l.Spec.Limited; limited != nil {
		setDefault(&limited.NominalConcurrencyShares, shares)
		setDefault(&limited.LendablePercent, 0)
		if q := limited.LimitResponse.Queuing; q != nil {
			for value, fallback := range map[*int32]int32{&q.Queues: queues, &q.HandSize: handSize,
				&q.QueueLengthLimit: queueLength} {
				if *value == 0 {
					*value = fallback
				}
			}
		}
	}
}

func setDefault(p **int32, value int32) {
	if *p == nil {
		*p = &value
	}
}

// LevelColumns are the columns of priority levels.
func LevelColumns() show.Columns {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return show.Name().
		String("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]).
		String("NominalConcurrencyShares",
			flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]).
		String("Queues", queuing["queues"]).
		String("HandSize", queuing["handSize"]).
		String("QueueLengthLimit", queuing["queueLengthLimit"]).
		Age()
}

// LevelRow are the cells of a priority level.
func LevelRow(l *flowcontrolv1.PriorityLevelConfiguration) []any {
	var n, q, h, length any = show.None, show.None, show.None, show.None
	if limited := l.Spec.Limited; limited != nil {
		n = limited.NominalConcurrencyShares
		if c := limited.LimitResponse.Queuing; c != nil {
			q, h, length = c.Queues, c.HandSize, c.QueueLengthLimit
		}
	}
	return []any{l.Name, string(l.Spec.Type), n, q, h, length, show.Age(l.CreationTimestamp)}
}
