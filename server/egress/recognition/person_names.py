"""List common given names and surnames: a symbol that is one of them counts as an ordinary word.

The list makes sentences from symbols harder; it is not what keeps names of patients here. That is the vocabulary,
which has no names of people.
"""

from __future__ import annotations

from typing import Final

_GIVEN: Final = """
aaron abdul abraham adam adrian ahmed aisha alan albert alex alexander alexandra ali alice alicia amanda amir amy ana
andrea andreas andrew angela anita ann anna anne annette anthony antonio arthur asha barbara beatrice ben benjamin
bernd bert beth betty bianca bill bob brad brian bruce carl carla carlos carmen carol caroline catherine cathy chad
charles charlotte chen chloe chris christian christina claire clara claudia craig daisy dan daniel daniela dave david
dean deborah denise dennis derek diana dieter don donald donna doris dorothy doug douglas ed eddie edgar edith edward
elena eli elias elizabeth ella ellen emil emily emma eric erica erik ernest ethan eva eve evelyn fatima felix fernando
finn flora florence frances francis frank franz fred frederick fritz gabriel gail gary george gerald gina gloria grace
greg gus hanna hannah hans harold harry hassan heidi heinz helen helga henry herman hugo ian ibrahim igor ina ines
inga ingrid irene iris irma isaac isabel ivan jack jacob jake james jan jane janet jason jay jean jeff jennifer jeremy
jessica jim joan joe joel johann johanna john jonas jonathan jorge jose josef joseph joshua juan judith julia juliana
julie jung jurgen karen karin karl kate katherine kathy katrin keith ken kenneth kevin khalid kim klaus kurt kyle lana
lara larry lars laura lauren lea lee lena leo leon leonard leslie lewis liam lily linda lisa liu lois lola lorenzo lou
louis louise lucas lucy luis luke lydia lynn mai manuel marc marco margaret maria marie marina mario marion mark markus
martha martin mary mathilde matt matthew maurice max maya mei melanie melissa michael michelle miguel mike mila min
ming miriam mohamed mohammed mona monica moritz muhammad nadia nancy naomi natalie nathan neil nick nicholas nicole
nina noah noel nora norma norman olaf olga olivia omar oscar otto pablo pamela pat patricia patrick paul paula pauline
pedro peggy penny pete peter phil philip pia pierre rachel ralph ramon ray raymond rebecca rene rita rob robert roberto
robin rod roger roland rolf ron ronald rosa rosa rose roy ruby rudolf russell ruth ryan sabine sally sam samantha
samuel sandra sandy sara sarah sasha scott sean sebastian sharon shirley simon simone sofia sonia sophia sophie stan
stefan stephanie stephen steve steven stuart sue susan suzanne sven sylvia tanya tara ted teresa terry theo theresa
thomas tim timothy tina toby todd tom tommy tony tracy ulrich ulrike una ursula uwe valerie vanessa vera vera veronica
victor victoria vincent viola virginia vivian walter wanda warren wayne wei wendy werner will william willy wolfgang
xavier yan yasmin yusuf yves zara zoe
"""
_SURNAMES: Final = """
adams ahmed alvarez andersen anderson bailey baker barnes bauer becker bell bennett berger black brown bryant burns
butler campbell carter castro chan chang chavez clark cohen cole collins cook cooper cox cruz davis diaz edwards evans
fischer fisher flores ford foster fox garcia gomez gonzales gonzalez gray green griffin gupta hall hamilton harris hart
hayes henderson hernandez hill hoffmann howard huang hughes hunt ivanov jackson jenkins jensen jimenez johnson jones
kaufmann keller kelly khan king klein koch kumar lang larsen lehmann lewis li lin long lopez maier marsh marshall martin
martinez mayer mendoza meyer miller mitchell moore morales moreno morgan morris mueller muller murphy murray myers
nelson neumann nguyen nielsen novak obrien olsen ortiz owens park parker patel perez perry peters petrov phillips
popescu powell price ramirez ramos reed reyes richards richardson richter rivera roberts robinson rodriguez rogers
romero ross rossi russo ruiz sanchez sanders santos sato schmidt schneider schroeder schulz schwarz shah sharma silva
singh smith sokolov stewart stone suzuki tanaka taylor thompson torres tran turner walker wagner wallace wang ward
washington watson weber west white williams wilson wolf wong wood wright wu xu yamamoto yang yilmaz young zhang zhao
zimmermann
"""
PERSON_NAMES: Final = frozenset(f"{_GIVEN} {_SURNAMES}".split())
