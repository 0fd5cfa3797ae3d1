"""List abbreviations of clinicians and patients with their full names, which are common knowledge.

Each is used only if the graph has one of its targets, tried in order. Short ones match in capitals only.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ABBREVIATIONS: Final = """
AAA: abdominal aortic aneurysm
AAV: anti-neutrophil antibody associated vasculitis; ANCA-associated vasculitis
ACS: acute coronary syndrome
AD: Alzheimer's disease
ADHD: attention deficit hyperactivity disorder; attention deficit-hyperactivity disorder
ADPKD: autosomal dominant polycystic kidney disease
AF: atrial fibrillation
AFib: atrial fibrillation
AIDS: acquired immunodeficiency syndrome
AKI: acute kidney injury; acute kidney failure
ALD: adrenoleukodystrophy
ALL: acute lymphoblastic leukemia; acute lymphocytic leukemia
ALS: amyotrophic lateral sclerosis
AMD: age related macular degeneration; macular degeneration
AML: acute myeloid leukemia
APS: antiphospholipid syndrome
ARDS: acute respiratory distress syndrome; adult respiratory distress syndrome
ARMD: age related macular degeneration; macular degeneration
ASD: autism spectrum disorder; autistic disorder
BCC: basal cell carcinoma
BPD: bronchopulmonary dysplasia
BPH: benign prostatic hyperplasia; prostatic hypertrophy
CAD: coronary artery disease
CAH: congenital adrenal hyperplasia
CF: cystic fibrosis
CFS: chronic fatigue syndrome
CHD: coronary heart disease; coronary artery disease
CHF: congestive heart failure
CKD: chronic kidney disease
CLL: chronic lymphocytic leukemia
CML: chronic myeloid leukemia; chronic myelogenous leukemia
CMT: Charcot-Marie-Tooth disease
COPD: chronic obstructive pulmonary disease
CRC: colorectal cancer; colorectal carcinoma
CVID: common variable immunodeficiency
DCM: dilated cardiomyopathy
DKA: diabetic ketoacidosis
DLBCL: diffuse large B-cell lymphoma
DM1: myotonic dystrophy type 1
DMD: Duchenne muscular dystrophy
DVT: deep vein thrombosis; deep venous thrombosis
EBV: Epstein-Barr virus infection; infectious mononucleosis
EDS: Ehlers-Danlos syndrome
EoE: eosinophilic esophagitis
ESRD: end stage renal disease; end stage renal failure
FAP: familial adenomatous polyposis
FH: familial hypercholesterolemia
FMF: familial Mediterranean fever
FSGS: focal segmental glomerulosclerosis
FTD: frontotemporal dementia
GAD: generalized anxiety disorder
GBM: glioblastoma multiforme; glioblastoma
GBS: Guillain-Barre syndrome
GERD: gastroesophageal reflux disease
GIST: gastrointestinal stromal tumor
GORD: gastroesophageal reflux disease
GVHD: graft-versus-host disease; graft versus host disease
HCC: hepatocellular carcinoma
HCM: hypertrophic cardiomyopathy
HD: Huntington's disease
HHT: hereditary hemorrhagic telangiectasia
HIV: human immunodeficiency virus infectious disease; HIV infectious disease
HNSCC: head and neck squamous cell carcinoma
HTN: hypertension
HUS: hemolytic-uremic syndrome
IBD: inflammatory bowel disease
IBS: irritable bowel syndrome
IgAN: IgA glomerulonephritis; IgA nephropathy
ILD: interstitial lung disease
IPF: idiopathic pulmonary fibrosis
ITP: immune thrombocytopenia; idiopathic thrombocytopenic purpura; autoimmune thrombocytopenic purpura
JIA: juvenile idiopathic arthritis; juvenile rheumatoid arthritis
LBD: Lewy body dementia
MAFLD: metabolic dysfunction-associated fatty liver disease; non-alcoholic fatty liver disease
MASLD: metabolic dysfunction-associated steatotic liver disease; non-alcoholic fatty liver disease
MDD: major depressive disorder
MDS: myelodysplastic syndrome
ME/CFS: chronic fatigue syndrome
MI: myocardial infarction
MM: multiple myeloma
MODY: maturity-onset diabetes of the young
MPN: myeloproliferative neoplasm
MS: multiple sclerosis
MSA: multiple system atrophy
NAFLD: non-alcoholic fatty liver disease; nonalcoholic fatty liver disease
NASH: non-alcoholic steatohepatitis; nonalcoholic steatohepatitis
NF1: neurofibromatosis 1
NF2: neurofibromatosis 2
NHL: non-Hodgkin lymphoma
NPC: nasopharynx carcinoma; nasopharyngeal carcinoma
NSCLC: non-small cell lung carcinoma; lung non-small cell carcinoma
OA: osteoarthritis
OCD: obsessive-compulsive disorder
OSA: obstructive sleep apnea
PAD: peripheral artery disease
PAH: pulmonary arterial hypertension
PBC: primary biliary cholangitis; primary biliary cirrhosis
PCOS: polycystic ovary syndrome
PD: Parkinson's disease
PE: pulmonary embolism
PKD: polycystic kidney disease
PKU: phenylketonuria
PMR: polymyalgia rheumatica
PNH: paroxysmal nocturnal hemoglobinuria
POTS: postural orthostatic tachycardia syndrome
PSC: primary sclerosing cholangitis
PSP: progressive supranuclear palsy
PsA: psoriatic arthritis
PTSD: post-traumatic stress disorder; posttraumatic stress disorder
PVD: peripheral vascular disease
PWS: Prader-Willi syndrome
RA: rheumatoid arthritis
RCC: renal cell carcinoma
RLS: restless legs syndrome
ROP: retinopathy of prematurity
RP: retinitis pigmentosa
SARS: severe acute respiratory syndrome
SCA: spinocerebellar ataxia; autosomal dominant cerebellar ataxia
SCC: squamous cell carcinoma
SCD: sickle cell disease; sickle cell anemia
SCID: severe combined immunodeficiency
SCLC: small cell lung carcinoma; lung small cell carcinoma
SLE: systemic lupus erythematosus
SMA: spinal muscular atrophy
SSc: systemic scleroderma; systemic sclerosis
T1D: type 1 diabetes mellitus
T1DM: type 1 diabetes mellitus
T2D: type 2 diabetes mellitus
T2DM: type 2 diabetes mellitus
TB: tuberculosis
TIA: transient cerebral ischemia; transient ischemic attack
TNBC: triple-receptor negative breast cancer; triple-negative breast cancer
TSC: tuberous sclerosis
TTP: thrombotic thrombocytopenic purpura
UC: ulcerative colitis
UTI: urinary tract infection
VHL: von Hippel-Lindau disease
VTE: venous thromboembolism
VWD: von Willebrand's disease
HER2: ERBB2
PD-1: PDCD1
PD-L1: CD274
p53: TP53
"""


def _read(table: str) -> Mapping[str, tuple[str, ...]]:
    lines = (line.partition(": ") for line in table.strip().splitlines())
    return MappingProxyType({short: tuple(full.split("; ")) for short, _, full in lines})


ABBREVIATIONS: Final = _read(_ABBREVIATIONS)
