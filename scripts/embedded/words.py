"""List words of synthetic names, titles and summaries. Any text works: the model learns to copy, not facts."""

from __future__ import annotations

# Frequent words of plain scientific English; none of them begins the name of a disease.
PROSE = """the of and in to is a with by for this that from are be as on or an has which at it was been may also
other not its can have these encoded member family protein gene proteins genes involved predicted enable binding
activity located several part act upstream within human mouse associated mutations cause result function functions
cell cells membrane nuclear nucleus cytoplasm regulation regulates regulatory transcription factor factors receptor
receptors kinase phosphatase domain domains subunit complex containing required role process pathway signaling
response expression expressed tissue tissues variants multiple alternative splicing isoforms found observed
identified encodes belongs acts through between interacts interaction synthesis transport channel enzyme catalyzes
formation development differentiation proliferation apoptosis cycle division repair damage replication elongation
initiation translation ribosomal small large nucleolar pseudogene antisense long non coding intergenic host
transcript similar known described however one two three four five both each into their there those then than when
while during after before among about over under such only same but were had does did could more most many some few
all any no new high low first second third major minor specific general common distinct different various single
together thought shown plays play roles form forms formed composed consists contain contains class group groups
members results resulting system systems processes product products cellular component components structure
structures active positive negative implicated encoding ortholog region regions integral extracellular
transmembrane target targets organization conserved highly addition key variety regulate regulator core binds
secreted survival acting parts well used using based characterized leads leading against following responsible
important essential critical necessary likely possible potential abundant widely mainly primarily largely thus
therefore without downstream upon via including"""

COMMON = """growth mitochondrial microRNA disease syndrome disorder deficiency type autosomal
recessive dominant linked early onset late severe mild familial congenital hereditary progressive juvenile
infantile isolated combined primary secondary susceptibility resistance dystrophy atrophy dysplasia myopathy
neuropathy encephalopathy cardiomyopathy anemia ataxia deafness blindness cancer carcinoma tumor leukemia
lymphoma diabetes obesity epilepsy retardation malformation hypoplasia hyperplasia immunodeficiency corneal
retinal muscular spinal skeletal cerebral hepatic renal cardiac pulmonary intestinal dental cutaneous vascular
neural sensory motor immune adipose bone cartilage skin hair tooth palate cleft limb digit face ear eye lens
heart liver kidney lung brain nerve muscle blood vessel lymph thymus spleen pancreas stomach colon breast ovary
testis metabolism mitochondria lysosomal peroxisomal storage glycogen lipid cholesterol amino acid nucleotide
sugar iron copper zinc calcium sodium potassium chloride magnesium hormone insulin growth thyroid steroid
vitamin oxygen alpha beta gamma delta epsilon theta kappa sigma omega zeta like related interacting homolog
ortholog coiled coil finger zinc ring box helix loop homeobox repeat rich motif tail head chain light heavy
variable constant region solute carrier superfamily transporter exchanger pump channel voltage gated ligand
dependent independent specific ubiquitin ligase conjugating protease peptidase inhibitor activator cofactor
chaperone scaffold adaptor anchor actin myosin tubulin dynein kinesin collagen keratin laminin integrin cadherin
mucin elastin fibrillin lamin histone chromatin telomere centromere chromosome chromosomal locus loci band arm
short open reading frame uncharacterized sequence sequences clone complete genome genomic assembly scaffold
strain isolate whole shotgun mitochondrion unplaced glycine proline serine threonine tyrosine lysine arginine
cysteine histidine leucine valine alanine glutamate aspartate olfactory taste opsin interleukin interferon
chemokine cytokine defensin complement coagulation fibrinogen platelet what which where who how when question
official symbol name alias aliases convert give tell me please find list does do has have located chromosome
organism species come align show related responsible contains function coding snp variant position standard
approved nomenclature identifier ensembl called used current correct for on located genes locations sequnece
aligment dna let decompose sub questions solve them step by step answer found looked up look nothing only this
model answers about and diseases sequences rather than general text error failed record records ids hits blast
entries entry omim topic left out more none named replaced letters identical bits hit organism unknown orgn"""

PREFIXES = """hyper hypo poly oligo mono di tri macro micro mega neuro osteo chondro myo cardio hepato nephro
dermato hemato leuko erythro thrombo immuno endo exo epi peri trans sub inter intra pre post anti pro phospho
glyco lipo proteo nucleo cyto chromo spondylo brachy dactylo cranio fronto oto retino kerato odonto gastro
entero angio lympho adreno ichthyo acro syn poikilo lepto crypto pseudo oculo audio spino cerebello onycho
tricho porphyro galacto fructo gluco manno xantho cyano melano albino"""

STEMS = """derm myel gen path troph plas cyt lys kin phor trop som dactyl cephal ophthalm stom nephr arthr phren
carp tars sial gnath gloss card osteon chondr phak morph phil zyg lamin globin ferrin tensin vatin nectin actin
tropin porin lipin gelsin spectrin dystroph sarc neur ret kerat collagen fibrill pept nucle methyl acetyl
carboxyl hydrox sulf"""

SUFFIXES = """osis itis emia oma opathy otrophy oplasia ogenesis odysplasia osclerosis ostosis onychia uria algia
ectasia ism in ase ol ine ate ide al ic ous oid ation ion ive ful ness ment ance ency odontia odactyly ocephaly
ophthalmia oderma ochondria optosis olysis ophagy okinesis"""


def prose_words() -> list[str]:
    return sorted(set(PROSE.split()))


def common_words() -> list[str]:
    return sorted({*PROSE.split(), *COMMON.lower().split()})


def affixes() -> tuple[list[str], list[str], list[str]]:
    return PREFIXES.split(), STEMS.split(), SUFFIXES.split()
