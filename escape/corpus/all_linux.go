package corpus

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"cloister/escape"
	"cloister/escape/corpus/contained"
	"cloister/escape/corpus/kept"
	"cloister/escape/corpus/listed"
)

// All are the cases, in the order of the table of threats.
func All() []escape.Case {
	return podless(slices.Concat([]escape.Case{
		fs01(), fs01a(), fs02(), fs03(), fs04(), fs04a(), fs07(), fs07a(), fs08(), fs08a(), fs08b(), fs09(), fs09a(), fs10(), fs10a(), fs10b(), fs13(), fs15(), fs15a(), fs16(), fs18(), fs18a(), fs18b(), fs18c(), fs18d(), fs21(), fs21a(), fs23(), fs24(), fs25(), fs25a(), fs27(), fs27a(), fs28(), fs28a(), fs31(), fs33(), fs34(), fs36(), fs37(),
		af01(), af02(), af02a(), af02b(), af03(), af04(), af05(), af06(), af07(), af08(), af08a(), af08b(), af09(), af10(), af11(), af12(), af13(), af14(), af15(),
		pr01(), pr01a(), pr01b(), pr02(), pr03(), pr03a(), pr04(), pr04a(), pr05(), pr06(), pr07(), pr08(), pr09(), pr10(), pr11(), pr12(), pr18(), pr19(), pr20(), pr22(), pr23(), pr23a(), pr23b(), pr24(), pr25(), pr26(), pr27(), pr29(),
		nw01(), nw02(), nw03(), nw03a(), nw04(), nw08(), nw08a(), nw09(), nw10(), nw10a(), nw12(), nw13(), nw14(), nw15(), nw15a(), nw16(), nw16a(), nw18(), nw18a(), nw19(), nw20(), nw22(), nw22a(), nw23(), nw25(), nw26(), nw26a(), nw26b(), nw28(), nw30(), nw30a(), nw31(), nw32(), nw32a(), nw32b(), nw33(), nw34(), nw36(), nw37(), nw37a(), nw37b(), nw38(), nw40(), nw42(), nw43(), nw44(), nw45(), nw46(), nw48(), nw49(), nw60(), nw61(), nw61a(), nw62(), nw63(), nw64(),
		hx01(), hx02(), hx03(), hx04(), hx05(), hx06(), hx07(), hx08(), hx09(), hx11(), hx11a(), hx13(), hx14(), hx15(), hx16(), hx17(), hx19(), hx21(), hx22(), hx23(), hx25(), hx27(), hx28(), hx29(),
		se01(), se02(), se03(), se04(), se05(), se06(), se08(), se10(), se10a(), se11(), se12(), se15(), se20(), se20a(), se21(), se21a(), se22(), se22a(), se22b(), se23(),
		ui01(), ui02(), ui03(), ui05(), ui05a(), ui06(), ui07(), ui08(),
		lg01(), lg02(), lg03(), lg04(), lg05(), lg20(), lg21(),
		sc01(), sc02(), sc02a(), sc02b(), sc02c(), sc03(), sc03a(), sc05(), sc07(), sc08(), sc09(),
		bk12(), bk14(), bk14a(),
		po01(), po02(), po03(), po05(), po05a(), po07(), po10(), po10a(), po11(), po12(), po20(),
		af14a(), af16(), af16a(), af16b(), af16c(), af17(), af17a(), af18(),
		st01(), st02(), st03(), st04(), st20(),
	}, listed.Cases(), kept.Cases(), contained.Cases()))
}

// podsText says of each case that has no meaning in a pod why, a case on each line.
//
//go:embed pods.txt
var podsText string

// podless notes it in the cases.
func podless(cases []escape.Case) []escape.Case {
	for line := range strings.Lines(podsText) {
		id, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		for i := range cases {
			if c := &cases[i]; c.ID == id {
				c.Except = maps.Clone(c.Except)
				if c.Except == nil {
					c.Except = map[escape.Column]string{}
				}
				c.Except[escape.Pod] = why
			}
		}
	}
	return cases
}
